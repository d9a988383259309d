// What the client needs of the platform that it runs on. The types say only what is
// used, so that React Native and mini programs can supply their own.

/** The part of a fetch response that the client uses. */
export interface FetchResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  json(): Promise<unknown>;
  /** The body as a stream of bytes. Without it live rankings are polled. */
  readonly body?: { getReader(): StreamReader } | null;
}

/** The part of a ReadableStreamDefaultReader that the client uses. */
export interface StreamReader {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
}

/** What tells a request to stop: an AbortSignal. */
export interface Signal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

export interface FetchOptions {
  method: string;
  headers: Record<string, string>;
  body?: string;
  // The platform's own type, which differs between them.
  signal?: any;
  cache?: 'no-store';
}

export type Fetch = (url: string, options: FetchOptions) => Promise<FetchResponse>;

/** Storage is localStorage, AsyncStorage of React Native, or alike. */
export interface Storage {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): unknown;
  removeItem(key: string): unknown;
}

/** Clock returns the time and runs functions later. Its defaults are the platform's. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  setTimeout(run: () => void, milliseconds: number): unknown;
  clearTimeout(timer: any): void;
}

export interface Controller {
  readonly signal: Signal;
  abort(): void;
}

// The client's own names for what browsers, Node and React Native have.
interface Platform {
  fetch?: Fetch;
  setTimeout(run: () => void, milliseconds: number): unknown;
  clearTimeout(timer: unknown): void;
  AbortController?: new () => Controller;
  location?: { origin?: string };
  TextDecoder?: new () => {
    decode(bytes: Uint8Array | undefined, options: { stream: boolean }): string;
  };
}

export const platform = globalThis as unknown as Platform;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (run, milliseconds) => platform.setTimeout(run, milliseconds),
  clearTimeout: (timer) => platform.clearTimeout(timer),
};

/** newController returns an AbortController, if the platform has them. */
export const newController = (): Controller | undefined =>
  platform.AbortController && new platform.AbortController();
