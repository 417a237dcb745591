import { Code, ConnectError } from "@connectrpc/connect";
import { createCheckClient, limitedFetch, Verdict } from "../src/index.ts";

/**
 * Asks the checker three times about an account, in a browser or in Node, and tells
 * in words what it said; then by fetch, which waits where it is told to.
 */
export async function example(checkerUrl: string, token: string): Promise<string[]> {
  const checker = createCheckClient({ url: checkerUrl, token });
  const said: string[] = [];
  for (let i = 0; i < 3; i++) {
    const answer = await checker.check({ domain: "public-api", entries: [{ rule: "growth-global", key: "acct_7Q2" }] });
    said.push(`${Verdict[answer.verdict]}, ${answer.entries[0]?.remaining} left`);
  }
  try {
    await checker.check({ domain: "public-api", entries: [{ rule: "no-such-rule", key: "acct_7Q2" }] });
  } catch (error) {
    said.push(Code[ConnectError.from(error).code]);
  }
  const polite = limitedFetch();
  const answer = await polite(`${checkerUrl}/v1/ratelimit:check`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ domain: "public-api", entries: [{ rule: "growth-global", key: "acct_8R3", cost: 1 }] }),
  });
  said.push(`${answer.status} ${((await answer.json()) as { verdict: string }).verdict}`);
  return said;
}
