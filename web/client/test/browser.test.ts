import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, chromium } from "playwright-core";
import { example } from "../examples/check.ts";
import { type RunningChecker, startChecker, token } from "./checker.ts";

const want = ["ALLOWED, 1 left", "ALLOWED, 0 left", "DENIED, 0 left", "NotFound", "200 allow"];

const page = createServer(async (request, response) => {
  if (request.url === "/example.js") {
    const bundle = await build({
      entryPoints: [fileURLToPath(new URL("../examples/check.js", import.meta.url))],
      bundle: true,
      format: "esm",
      write: false,
    });
    response.setHeader("Content-Type", "text/javascript");
    response.end(bundle.outputFiles[0]?.text);
    return;
  }
  response.setHeader("Content-Type", "text/html");
  response.end(
    '<!doctype html><title>example</title><script type="module">import { example } from "/example.js"; globalThis.example = example;</script>',
  );
});
let origin = "";
let browser: Browser;
let checker: RunningChecker | undefined;

before(async () => {
  await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
  browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  await checker?.stop();
  page.close();
});

// A script of an allowed origin gets by Connect what every caller gets, in a real
// browser, preflight and all; one of another origin gets nothing.
test("the checker decides for a script in Chromium, and for Node", async () => {
  checker = await startChecker(origin);
  const { url } = checker;
  const tab = await browser.newPage();
  await tab.goto(origin);
  await tab.waitForFunction("globalThis.example !== undefined");
  const said = await tab.evaluate(`globalThis.example(${JSON.stringify(url)}, ${JSON.stringify(token)})`);
  assert.deepEqual(said, want);

  await tab.goto(origin.replace("127.0.0.1", "localhost"));
  await tab.waitForFunction("globalThis.example !== undefined");
  await assert.rejects(tab.evaluate(`globalThis.example(${JSON.stringify(url)}, ${JSON.stringify(token)})`), /Failed to fetch/);
  await checker.stop();

  checker = await startChecker(origin);
  assert.deepEqual(await example(checker.url, token), want);
});
