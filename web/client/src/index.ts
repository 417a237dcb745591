/** Asks the checker of Shiplane Limits, and obeys rate limits, from browsers and Node. */
export { type CheckClient, type CheckClientOptions, createCheckClient } from "./checkClient.ts";
export * from "./gen/shiplane/check/v1/check_pb.ts";
export { type LimitedFetchOptions, limitedFetch, WaitError } from "./limitedFetch.ts";
