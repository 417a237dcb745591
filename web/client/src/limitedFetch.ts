import { Pacer } from "./pacer.ts";

const attemptsDefault = 4; // the first included
const waitDefault = 60_000; // ms before a request that would wait longer fails at once
const retryShare = 0.2; // retries earned by each request
const retriesSaved = 10; // in hand at most, so that an outage is not multiplied
const keysMax = 1024; // limits known at once; beyond, idle ones are forgotten
const timerMax = 2 ** 31 - 1; // ms that a timer can wait

/** The error of a request that was not sent: it would have waited longer than maxWaitMs. */
export class WaitError extends Error {
  override readonly name = "WaitError";
  /** Milliseconds until it could pass. */
  readonly waitMs: number;
  constructor(waitMs: number) {
    super(`the rate limit is used up: the next request can pass in ${Math.ceil(waitMs / 1000)} s`);
    this.waitMs = waitMs;
  }
}

export interface LimitedFetchOptions {
  /** What sends requests; the global fetch by default. */
  fetch?: typeof fetch;
  /** Milliseconds that a request may wait in all before it is sent; a minute by default. */
  maxWaitMs?: number;
  /** Attempts of one request, the first included; 4 by default. */
  attempts?: number;
  /** Names whose limit a request counts under; by default its origin, X-Api-Key and Authorization. */
  key?: (request: Request) => string;
  /** Within [0, 1); Math.random by default. */
  random?: () => number;
}

/** A limit and the requests that wait for it, in order. */
interface Lane {
  pacer: Pacer;
  users: number;
  turn: Promise<void>; // ends when the last who waits has been sent
  behind: number; // who waits
  wake: () => void; // whoever is next looks again
}

/**
 * Makes a fetch that obeys rate limits, as the Go client's Transport does: it sends a
 * request when RateLimit and Retry-After of the answers before say that it can pass,
 * and sends a refused one again when its time has come: any after a 429, idempotent
 * ones after a 503, a fifth of all at most. An answer that is still a refusal then is
 * returned as it came. From another origin, a server has to expose these fields (CORS).
 */
export function limitedFetch(options: LimitedFetchOptions = {}): typeof fetch {
  const send = options.fetch ?? ((...call: Parameters<typeof fetch>) => fetch(...call));
  const maxWait = options.maxWaitMs ?? waitDefault;
  const attempts = options.attempts ?? attemptsDefault;
  const random = options.random ?? Math.random;
  const lanes = new Map<string, Lane>();
  let retries = retriesSaved;

  return async (input, init) => {
    const request = new Request(input, init);
    retries = Math.min(retries + retryShare, retriesSaved);
    const lane = laneOf(lanes, (options.key ?? keyOf)(request));
    lane.users++;
    try {
      for (let attempt = 1; ; attempt++) {
        const sent = await admit(lane, request.signal, maxWait);
        const copy = attempt < attempts ? request.clone() : request;
        const answer = await flight(lane, send(copy));
        const wait = lane.pacer.learn(answer.status, answer.headers, sent, Date.now(), random());
        lane.wake();
        if (attempt >= attempts || !repeatable(request, answer) || wait > maxWait || retries < 1) {
          return answer;
        }
        retries--;
        await answer.body?.cancel();
      }
    } finally {
      lane.users--;
    }
  };
}

async function flight(lane: Lane, answer: Promise<Response>): Promise<Response> {
  try {
    return await answer;
  } catch (error) {
    lane.pacer.failed();
    lane.wake();
    throw error;
  }
}

function keyOf(request: Request): string {
  return [new URL(request.url).origin, request.headers.get("X-Api-Key"), request.headers.get("Authorization")].join("\n");
}

function laneOf(lanes: Map<string, Lane>, key: string): Lane {
  let lane = lanes.get(key);
  if (lane === undefined) {
    if (lanes.size >= keysMax) {
      for (const [name, idle] of lanes) {
        if (idle.users === 0) {
          lanes.delete(name); // learned anew, it costs a refusal at most
        }
      }
    }
    lane = { pacer: new Pacer(), users: 0, turn: Promise.resolve(), behind: 0, wake: () => {} };
    lanes.set(key, lane);
  }
  return lane;
}

/** Waits until a request can pass, counts it as sent, and returns when. */
async function admit(lane: Lane, signal: AbortSignal, most: number): Promise<number> {
  signal.throwIfAborted();
  const start = Date.now();
  const expected = lane.pacer.wait(start, lane.behind);
  if (expected > most) {
    throw new WaitError(expected);
  }
  lane.behind++;
  const before = lane.turn;
  let done = () => {};
  lane.turn = new Promise((resolve) => {
    done = resolve;
  });
  try {
    await before;
    for (;;) {
      signal.throwIfAborted();
      const now = Date.now();
      const wait = lane.pacer.take(now);
      if (wait === 0) {
        return now;
      }
      if (wait > most - (now - start)) {
        throw new WaitError(wait);
      }
      await news(lane, signal, wait);
    }
  } finally {
    lane.behind--;
    done();
  }
}

/** Waits for a time, or until there is something new. */
function news(lane: Lane, signal: AbortSignal, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      lane.wake = () => {};
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, timerMax));
    signal.addEventListener("abort", end);
    lane.wake = end;
  });
}

/** Whether an answer refuses a request that may be sent again. */
function repeatable(request: Request, answer: Response): boolean {
  return answer.status === 429 || (answer.status === 503 && ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].includes(request.method));
}
