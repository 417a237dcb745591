import { type Parameters, parseList } from "structured-headers";

/** Policies of one answer that are looked at, at most. */
const policiesMax = 32;

/** The members of a list of strings with parameters; none of one that cannot be read. */
export function items(headers: Headers, field: string): Map<string, Parameters> {
  const found = new Map<string, Parameters>();
  const text = headers.get(field);
  if (text === null) {
    return found;
  }
  try {
    for (const [name, parameters] of parseList(text).slice(0, policiesMax)) {
      if (typeof name === "string") {
        found.set(name, parameters);
      }
    }
  } catch {
    found.clear(); // what cannot be read changes nothing
  }
  return found;
}

/** A whole number among parameters, -1 for none. */
export function number(parameters: Parameters | undefined, name: string): number {
  const value = parameters?.get(name);
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : -1;
}

/** Retry-After in milliseconds from now: seconds, or a date; undefined for none. */
export function retryAfter(headers: Headers, now: number): number | undefined {
  const text = headers.get("Retry-After");
  if (text === null) {
    return undefined;
  }
  if (/^\d+$/.test(text)) {
    return Number(text) * 1000;
  }
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
