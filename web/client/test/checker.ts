import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The program, which make builds before these tests; seen from dist/test. */
const program = process.env["CHECKER"] ?? fileURLToPath(new URL("../../../../bin/checker", import.meta.url));

/** Two requests an hour for each account. */
const rules = `
rules:
  - {id: growth-global, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 2}
`;

export const token = "caller-token-of-a-test-1";

export interface RunningChecker {
  url: string;
  stop: () => Promise<void>;
}

/** Runs a checker for scripts of an origin. */
export async function startChecker(origin: string): Promise<RunningChecker> {
  const folder = mkdtempSync(join(tmpdir(), "checker-"));
  writeFileSync(join(folder, "rules.yaml"), rules);
  writeFileSync(join(folder, "tokens"), `${token}\n`, { mode: 0o600 });
  const flags = ["--rules", join(folder, "rules.yaml"), "--token-file", join(folder, "tokens"), "--allowed-origins", origin];
  const addresses = ["--listen", "--grpc-listen", "--admin"].map((flag) => `${flag}=127.0.0.1:0`);
  const child = spawn(program, [...flags, ...addresses, "--log-format=json"], { stdio: ["ignore", "ignore", "pipe"] });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    return { url: `http://${await listening(child)}`, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Reads from the log where the checker listens. */
async function listening(child: ChildProcess): Promise<string> {
  const log: string[] = [];
  if (child.stderr !== null) {
    for await (const line of createInterface({ input: child.stderr })) {
      log.push(line);
      const entry = JSON.parse(line) as { msg: string; api?: string };
      if (entry.msg === "listening" && entry.api !== undefined) {
        child.stderr.resume(); // what comes later is read and forgotten
        return entry.api;
      }
    }
  }
  throw new Error(`the checker did not start:\n${log.join("\n")}`);
}
