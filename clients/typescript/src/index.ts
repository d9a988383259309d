export type { UploadAddress, UploadAddresses } from './addresses.js';
export type { Answer, Call, CallOptions } from './call.js';
export { createClient, type Client } from './client.js';
export type { ClientOptions } from './connection.js';
export { StepboardError, type ErrorCode, type Problem } from './error.js';
export type { Live, LiveOptions, LiveState, Ranking } from './live.js';
export type {
  Clock,
  Fetch,
  FetchOptions,
  FetchResponse,
  Signal,
  Storage,
  StreamReader,
} from './platform.js';
export type { components, operations, paths } from './schema.js';
export type { DayTotal, UploadOptions, Uploads } from './uploads.js';
