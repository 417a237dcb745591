import type { Parameters } from "structured-headers";
import { items, number, retryAfter } from "./fields.ts";

const spreadMin = 1000; // ms, of those who were told the same time
const spreadMax = 60_000;
const spreadDouble = 6; // times at most, by then it is above its bound
const backoffMin = 100; // ms, after a 503 that says no time
const probeWait = 1000; // ms before the next is sent while one finds out whether refusals have ended
const slack = 1; // ms

/** A bucket that refills at its rate, or a window, all of which is there again when it ends. */
interface Policy {
  quota: number; // requests
  window: number; // ms
  bucket: boolean; // nothing that was told of it has spoken against a bucket
  level: number; // requests that may be sent
  at: number; // when that was so
  told: number; // when an answer told of it
  full: number; // when a window ends
}

/**
 * What is known of one limit: the Go client's pacer, held to the same scenarios.
 * Its arithmetic is pure: times, in milliseconds, and chance come in.
 */
export class Pacer {
  private policies = new Map<string, Policy>();
  private until = 0; // nobody is sent before
  private refusals = 0; // in a row
  private counted = 0; // when the last of them came: who was sent before then was told the same
  private flying = 0; // requests sent and not answered
  private sent = 0; // when the last was sent

  /** Counts a request as sent and returns 0, or the time until it is to be looked at again. */
  take(now: number): number {
    const wait = this.wait(now, 0);
    if (wait > 0) {
      return wait;
    }
    // While all are refused one finds out whether that has ended.
    if (this.refusals > 0 && this.flying > 0 && this.sent + probeWait > now) {
      return this.sent + probeWait - now;
    }
    for (const policy of this.policies.values()) {
      policy.level--;
    }
    this.flying++;
    this.sent = now;
    return 0;
  }

  /** How long a request with so many before it must wait, as far as that can be told. */
  wait(now: number, ahead: number): number {
    let wait = Math.max(0, this.until - now);
    for (const policy of this.policies.values()) {
      refill(policy, now);
      wait = Math.max(wait, waitOf(policy, now, ahead));
    }
    return Math.ceil(wait);
  }

  /** Counts a request as ended without an answer: it may have been counted there. */
  failed(): void {
    this.flying--;
  }

  /**
   * Takes what an answer to a request sent then tells, and returns the time until the
   * request can pass; 0 for an answer that is no refusal. chance is within [0, 1).
   */
  learn(status: number, headers: Headers, sent: number, now: number, chance: number): number {
    this.flying--;
    const limited = status === 429;
    const refused = limited || status === 503;
    this.read(headers, sent, now, refused);
    const known = this.refusals > 0 && sent < this.counted;
    if (!refused) {
      if (!known) {
        this.refusals = 0;
      }
      return 0;
    }
    const told = retryAfter(headers, now);
    let wait = told ?? (limited ? 0 : backoffMin);
    if (!known) {
      wait += Math.floor(chance * this.spread(limited || told !== undefined));
      this.refusals++;
      this.counted = now;
    }
    this.until = Math.max(this.until, now + wait);
    return this.until - now;
  }

  /** Over how long those who were refused come back: a window, doubled by each refusal in a row. */
  private spread(limited: boolean): number {
    let spread = backoffMin;
    if (limited) {
      spread = spreadMin;
      for (const policy of this.policies.values()) {
        spread = Math.max(spread, Math.min(policy.window, spreadMax));
      }
    }
    return Math.min(spread * 2 ** Math.min(this.refusals, spreadDouble), spreadMax);
  }

  /** Reads RateLimit and RateLimit-Policy; policies that are not named are forgotten. */
  private read(headers: Headers, sent: number, now: number, refused: boolean): void {
    const state = items(headers, "RateLimit");
    const allowed = items(headers, "RateLimit-Policy");
    if (state.size === 0) {
      return;
    }
    const known = this.policies;
    this.policies = new Map();
    for (const [name, left] of state) {
      const r = number(left, "r");
      if (r < 0) {
        continue;
      }
      const t = number(left, "t");
      const old = known.get(name);
      const policy = newPolicy(r, t, allowed.get(name), old, refused);
      policy.at = now;
      policy.told = now;
      policy.full = now + (t > 0 ? t * 1000 : policy.window);
      policy.level = r - this.flying; // others that are on their way were counted there, or will be
      if (old !== undefined && sent < old.told) {
        // What was told meanwhile may be newer.
        refill(old, now);
        policy.level = Math.min(policy.level, old.level);
        policy.full = Math.max(policy.full, old.full);
      }
      this.policies.set(name, policy);
    }
  }
}

function refill(policy: Policy, now: number): void {
  if (policy.bucket) {
    const refilled = (Math.max(0, now - policy.at) * policy.quota) / policy.window;
    policy.level = Math.min(policy.quota, policy.level + refilled);
  } else if (now >= policy.full) {
    policy.level = policy.quota;
    policy.full = now + policy.window; // the next one's end, should nobody tell
  }
  policy.at = now;
}

function waitOf(policy: Policy, now: number, ahead: number): number {
  const lack = 1 + ahead - policy.level;
  if (lack <= 0) {
    return 0;
  }
  if (policy.bucket) {
    return Math.floor((lack * policy.window) / policy.quota) + slack;
  }
  const windows = Math.max(0, Math.ceil(lack / policy.quota) - 1); // after the present one
  return policy.full - now + windows * policy.window;
}

/** What a policy allows, of which r are left; t in seconds until all are there, or a refused one passes. */
function newPolicy(r: number, t: number, allowed: Parameters | undefined, old: Policy | undefined, refused: boolean): Policy {
  const q = number(allowed, "q");
  const w = number(allowed, "w");
  const policy: Policy = { quota: q, window: w * 1000, bucket: false, level: 0, at: 0, told: 0, full: 0 };
  if (q < 1 || w < 1) {
    policy.quota = Math.max(r, 1, old?.quota ?? 0); // it has held as much
    policy.window = Math.max(t, 1) * 1000;
    return policy;
  }
  const edited = old === undefined || old.quota !== policy.quota || old.window !== policy.window;
  policy.bucket = (edited || old.bucket) && (refused || refilling(q, w, r, t));
  return policy;
}

/** Tells a bucket from a window: its time to full is what its rate says, but for rounding. */
function refilling(q: number, w: number, r: number, t: number): boolean {
  return t < 0 || Math.abs(t - ((q - r) * w) / q) <= 2 + w / q;
}
