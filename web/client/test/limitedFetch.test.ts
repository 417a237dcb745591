import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { limitedFetch, WaitError } from "../src/limitedFetch.ts";

/** A token bucket of 10 requests a second, 20 at once, that counts what it refuses. */
function bucket() {
  const server = {
    level: 20,
    at: Date.now(),
    refused: 0,
    bodies: [] as string[],
    fetch: async (input: string | URL | Request): Promise<Response> => {
      const request = input as Request;
      server.bodies.push(await request.text());
      const now = Date.now();
      server.level = Math.min(20, server.level + ((now - server.at) * 10) / 1000);
      server.at = now;
      const allowed = server.level >= 1;
      if (allowed) {
        server.level--;
      } else {
        server.refused++;
      }
      const headers: Record<string, string> = { "RateLimit-Policy": '"a";q=20;w=2' };
      headers["RateLimit"] = `"a";r=${Math.floor(server.level)};t=${allowed ? Math.ceil((20 - server.level) / 10) : 1}`;
      if (!allowed) {
        headers["Retry-After"] = "1";
      }
      return new Response(null, { status: allowed ? 200 : 429, headers });
    },
  };
  return server;
}

/** Runs work in virtual time. */
async function virtually(work: () => Promise<void>): Promise<void> {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.UTC(2026, 11, 1) });
  try {
    let ended = false;
    const running = work().finally(() => {
      ended = true;
    });
    running.catch(() => {}); // it is awaited below
    while (!ended) {
      for (let i = 0; i < 20; i++) {
        await new Promise((resolve) => setImmediate(resolve)); // what can go on goes on
      }
      mock.timers.tick(10);
    }
    await running;
  } finally {
    mock.timers.reset();
  }
}

test("a caller that obeys is refused once at most, when others have used the limit up", () =>
  virtually(async () => {
    const server = bucket();
    server.level = 0;
    const polite = limitedFetch({ fetch: server.fetch, random: () => 0.5 });
    for (let i = 0; i < 60; i++) {
      assert.equal((await polite("http://api.example/")).status, 200);
    }
    assert.equal(server.refused, 1);
  }));

test("requests at the same time share what is known, and none is refused", () =>
  virtually(async () => {
    const server = bucket();
    const polite = limitedFetch({ fetch: server.fetch });
    await polite("http://api.example/");
    const answers = await Promise.all(Array.from({ length: 40 }, () => polite("http://api.example/")));
    assert.ok(answers.every((answer) => answer.status === 200));
    assert.equal(server.refused, 0);
  }));

test("a refused request is sent again with its body", () =>
  virtually(async () => {
    const server = bucket();
    server.level = 0;
    const polite = limitedFetch({ fetch: server.fetch });
    const answer = await polite("http://api.example/", { method: "POST", body: "a label" });
    assert.equal(answer.status, 200);
    assert.deepEqual(server.bodies, ["a label", "a label"]);
  }));

test("an outage is not multiplied, and what may have been done is not done again", () =>
  virtually(async () => {
    let calls = 0;
    const polite = limitedFetch({
      fetch: async () => {
        calls++;
        return new Response(null, { status: 503 });
      },
      maxWaitMs: Number.MAX_SAFE_INTEGER,
      random: () => 0,
    });
    for (let i = 0; i < 100; i++) {
      assert.equal((await polite("http://api.example/")).status, 503);
    }
    assert.ok(calls > 100 && calls <= 130, `100 requests became ${calls}`);
    const before = calls;
    await polite("http://api.example/", { method: "POST" });
    assert.equal(calls, before + 1);
  }));

test("what would wait too long fails at once, and who leaves waits no longer", () =>
  virtually(async () => {
    const refuse = async () => new Response(null, { status: 429, headers: { "Retry-After": "3600" } });
    const polite = limitedFetch({ fetch: refuse });
    assert.equal((await polite("http://api.example/")).status, 429);
    await assert.rejects(polite("http://api.example/"), (error) => error instanceof WaitError && error.waitMs >= 3_600_000);
    const patient = limitedFetch({ fetch: refuse, maxWaitMs: 10_000_000, attempts: 1 });
    await patient("http://api.example/");
    const leave = new AbortController();
    const waiting = patient("http://api.example/", { signal: leave.signal });
    leave.abort(new Error("gone"));
    await assert.rejects(waiting, /gone/);
  }));
