import { asError, StepboardError, type Problem } from './error.js';
import {
  newController,
  platform,
  systemClock,
  type Clock,
  type Controller,
  type Fetch,
  type FetchResponse,
  type Signal,
} from './platform.js';

export interface ClientOptions {
  /**
   * The service's address, such as https://stepboard.example.com or https://example.com/steps; ''
   * in a page of its own.
   */
  baseUrl: string;
  /**
   * Returns a token of the user. It is called before the first call, and with a token that
   * was refused to get another one. Return null to call without a token.
   */
  token: (refused?: string) => string | null | Promise<string | null>;
  fetch?: Fetch;
  clock?: Clock;
  /** Milliseconds after which a call without a whole answer fails; 30,000 by default. */
  timeout?: number;
}

/** AnyOptions are the options of a call without their types. */
export interface AnyOptions {
  path?: Record<string, string | number>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: Signal;
  /** Ends the request, also after its answer has begun. */
  controller?: Controller | undefined;
}

type Read<T> = (response: FetchResponse) => Promise<T>;

/** Connection is what the parts of the client share. */
export interface Connection {
  readonly clock: Clock;
  /** Makes a call and reads its answer. Every error is a StepboardError. */
  send<T>(method: string, path: string, options: AnyOptions, read: Read<T>): Promise<T>;
  json(method: string, path: string, options: AnyOptions): Promise<unknown>;
  /** Makes the next call ask for another token. */
  expire(): Promise<void>;
}

function addressOf(path: string, { path: names = {}, query = {} }: AnyOptions): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(names[name])),
  );
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return pairs.length ? `${filled}?${pairs.join('&')}` : filled;
}

// whyUnanswered returns the error of a call whose fetch has failed. Browsers tell a page no more
// about a call that the service does not permit its origin than about a service that is away.
function whyUnanswered(baseUrl: string, cause: unknown): StepboardError {
  const service = /^https?:\/\/[^/]+/.exec(baseUrl)?.[0];
  const page = platform.location?.origin;
  return cause instanceof TypeError && service && page && service !== page
    ? new StepboardError(0, {
        detail: `there was no answer: ${service} was not reached, or its setting http.cors_origins lacks ${page}`,
      })
    : asError(cause);
}

/** connect returns the connection of a client. */
export function connect({
  baseUrl,
  token: getToken,
  fetch = platform.fetch,
  clock = systemClock,
  timeout = 30_000,
}: ClientOptions): Connection {
  if (!fetch) throw new Error('this platform has no fetch: pass one');
  let token: Promise<string | null> | undefined;
  let refused: string | undefined;

  // currentToken returns the token of the calls that begin now. All of them share one
  // question, which is asked again if it fails.
  const currentToken = (): Promise<string | null> => {
    if (!token) {
      const asked = (token = Promise.resolve(refused).then(getToken));
      asked.catch(() => {
        if (token === asked) token = undefined;
      });
    }
    return token;
  };
  // refuse makes the next call ask for another token, unless somebody has already.
  const refuse = async (text: string | null): Promise<void> => {
    if ((await token) !== text) return;
    refused = text ?? undefined;
    token = undefined;
  };

  // attempt makes one request and reads its answer before the deadline.
  const attempt = async <T>(
    method: string,
    path: string,
    options: AnyOptions,
    bearer: string | null,
    read: Read<T>,
  ): Promise<T> => {
    const { body, signal, controller = newController() } = options;
    const headers: Record<string, string> = {};
    if (bearer) headers['Authorization'] = `Bearer ${bearer}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let fail = (): void => {};
    const failed = new Promise<never>((_, reject) => {
      fail = () => {
        reject(new StepboardError(0));
        controller?.abort();
      };
    });
    const timer = clock.setTimeout(fail, timeout);
    signal?.addEventListener('abort', fail);
    if (signal?.aborted) fail();
    const work = async (): Promise<T> => {
      const response = await fetch(baseUrl.replace(/\/$/, '') + addressOf(path, options), {
        method,
        headers,
        cache: 'no-store',
        ...(controller && { signal: controller.signal }),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (response.ok) return read(response);
      const problem = (await response.json().catch(() => null)) as Partial<Problem> | null;
      throw new StepboardError(response.status, problem, response.headers.get('Retry-After'));
    };
    try {
      return await Promise.race([work(), failed]);
    } catch (error) {
      throw whyUnanswered(baseUrl, error);
    } finally {
      clock.clearTimeout(timer);
      signal?.removeEventListener('abort', fail);
    }
  };

  const send = async <T>(
    method: string,
    path: string,
    options: AnyOptions,
    read: Read<T>,
  ): Promise<T> => {
    const bearer = await currentToken();
    try {
      return await attempt(method, path, options, bearer, read);
    } catch (error) {
      if (asError(error).status !== 401) throw error;
      await refuse(bearer);
      const next = await currentToken();
      if (next === bearer) throw error;
      return attempt(method, path, options, next, read);
    }
  };

  return {
    clock,
    send,
    json: (method, path, options) =>
      send(method, path, options, (response) =>
        response.status === 204 ? Promise.resolve(null) : response.json(),
      ),
    expire: async () => refuse(await currentToken()),
  };
}
