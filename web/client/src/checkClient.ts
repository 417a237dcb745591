import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { CheckService } from "./gen/shiplane/check/v1/check_pb.ts";

/** A client of the checker: check, checkBatch, and for those with the role pod, acquire. */
export type CheckClient = Client<typeof CheckService>;

export interface CheckClientOptions {
  /** As https://checker.example, or http://127.0.0.1:8081. */
  url: string;
  /** Sent as a bearer token. */
  token?: string;
  /** Milliseconds that a call may take; 1,000 by default, for browsers are far away. */
  timeoutMs?: number;
}

/**
 * Makes a client of the checker by Connect. A refusal is an answer, not an error. A
 * call is not repeated: after an error of the network it may have been charged.
 */
export function createCheckClient(options: CheckClientOptions): CheckClient {
  const interceptors: Interceptor[] = [];
  if (options.token !== undefined) {
    const field = `Bearer ${options.token}`;
    interceptors.push((next) => (request) => {
      request.header.set("Authorization", field);
      return next(request);
    });
  }
  return createClient(
    CheckService,
    createConnectTransport({ baseUrl: options.url, interceptors, defaultTimeoutMs: options.timeoutMs ?? 1000 }),
  );
}
