import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Pacer } from "../src/pacer.ts";

interface Step {
  at: number;
  take?: number;
  lost?: boolean;
  answer?: { sent: number; status: number; headers: Record<string, string> };
  wait?: number;
  chance?: number;
}

// The scenarios that the Go client is held to, too; this file runs from dist/test.
const vectors = JSON.parse(readFileSync(new URL("../../../../client/testdata/pacing.json", import.meta.url), "utf8")) as {
  scenarios: { name: string; steps: Step[] }[];
};

for (const scenario of vectors.scenarios) {
  test(`pacer: ${scenario.name}`, () => {
    const pacer = new Pacer();
    const start = Date.UTC(2026, 11, 1);
    scenario.steps.forEach((step, i) => {
      if (step.lost) {
        pacer.failed();
      } else if (step.take !== undefined) {
        assert.equal(pacer.take(start + step.at), step.take, `step ${i}: how long a request waits`);
      } else if (step.answer !== undefined) {
        const { sent, status, headers } = step.answer;
        const wait = pacer.learn(status, new Headers(headers), start + sent, start + step.at, step.chance ?? 0);
        assert.equal(wait, step.wait, `step ${i}: what an answer tells`);
      }
    });
  });
}
