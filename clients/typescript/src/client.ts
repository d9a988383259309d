import { asError, StepboardError, type Problem } from './error.js';
import { followRanking, type Live, type LiveOptions } from './live.js';
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
import type { paths } from './schema.js';
import { keepUploads, type UploadOptions, type Uploads } from './uploads.js';

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

type Lower<M extends string> = Lowercase<M>;
type Operation<P extends keyof paths, M extends string> =
  Lower<M> extends keyof paths[P] ? NonNullable<paths[P][Lower<M>]> : never;
type Methods<P extends keyof paths> = {
  [M in 'GET' | 'PUT' | 'POST' | 'DELETE']: Operation<P, M> extends { responses: unknown }
    ? M
    : never;
}['GET' | 'PUT' | 'POST' | 'DELETE'];
type PathOf<O> = O extends { parameters: { path: infer X } } ? { path: X } : { path?: never };
type QueryOf<O> = O extends { parameters: { query?: infer X } } ? { query?: X } : { query?: never };
type BodyOf<O> = O extends { requestBody: { content: { 'application/json': infer X } } }
  ? { body: X }
  : { body?: never };
type JSONOf<R> = R extends { content: { 'application/json': infer X } } ? X : null;

/** The parameters and body of a call. */
export type CallOptions<P extends keyof paths, M extends string> = PathOf<Operation<P, M>> &
  QueryOf<Operation<P, M>> &
  BodyOf<Operation<P, M>> & { signal?: Signal };

/** The answer of a call; null if it has none. */
export type Answer<P extends keyof paths, M extends string> =
  Operation<P, M> extends { responses: infer R }
    ? JSONOf<R[keyof R & (200 | 201 | 202 | 204)]>
    : never;

type Needed<O> = object extends O ? [options?: O] : [options: O];

export interface Client {
  /**
   * call makes a call of the API, such as call('GET', '/v1/boards/{board}/friends',
   * {path: {board: 'steps'}}). It throws a StepboardError, of status 0 if the signal aborts.
   */
  call<P extends keyof paths, M extends Methods<P>>(
    method: M,
    path: P,
    ...options: Needed<CallOptions<P, M>>
  ): Promise<Answer<P, M>>;
  /** live follows the ranking among friends, or of a group, until it is stopped. */
  live(options: LiveOptions): Live;
  /** uploads sends totals, and keeps them until the service has them. */
  uploads(options: UploadOptions): Uploads;
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
    .filter(([, value]) => value !== undefined)
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

function connect({
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

/** createClient returns a client of the service for one user. */
export function createClient(options: ClientOptions): Client {
  const connection = connect(options);
  return {
    call: ((method: string, path: string, given: AnyOptions = {}) =>
      connection.json(method, path, given)) as Client['call'],
    live: (given) => followRanking(connection, given),
    uploads: (given) => keepUploads(connection, given),
  };
}
