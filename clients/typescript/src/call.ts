import type { Signal } from './platform.js';
import type { paths } from './schema.js';

type Lower<M extends string> = Lowercase<M>;
type Operation<P extends keyof paths, M extends string> =
  Lower<M> extends keyof paths[P] ? NonNullable<paths[P][Lower<M>]> : never;
type Methods<P extends keyof paths> = {
  [M in 'GET' | 'PUT' | 'POST' | 'DELETE']: Operation<P, M> extends { responses: unknown }
    ? M
    : never;
}['GET' | 'PUT' | 'POST' | 'DELETE'];
type PathOf<O> = O extends { parameters: { path: infer X } } ? { path: X } : { path?: never };
type QueryOf<O> = O extends { parameters: { query?: infer X } }
  ? { query?: { [K in keyof X]: X[K] | null } }
  : { query?: never };
type JSONBody<X> = { content: { 'application/json': X } };
type BodyOf<O> = O extends { requestBody: JSONBody<infer X> }
  ? { body: X }
  : O extends { requestBody?: infer B }
    ? OptionalBody<NonNullable<B>>
    : { body?: never };
type OptionalBody<B> = [B] extends [never]
  ? { body?: never }
  : B extends JSONBody<infer X>
    ? { body?: X }
    : { body?: never };
type JSONOf<R> = R extends { content: { 'application/json': infer X } } ? X : null;

// One after the other: TypeScript gives up on the product of what all calls take.
type OptionsOf<O> = O extends unknown
  ? PathOf<O> & QueryOf<O> & BodyOf<O> & { signal?: Signal }
  : never;

/** The parameters and body of a call. Parameters that are null or undefined are left out. */
export type CallOptions<P extends keyof paths, M extends string> = OptionsOf<Operation<P, M>>;

/** The answer of a call; null if it has none. */
export type Answer<P extends keyof paths, M extends string> =
  Operation<P, M> extends { responses: infer R }
    ? JSONOf<R[keyof R & (200 | 201 | 202 | 204)]>
    : never;

type Needed<O> = object extends O ? [options?: O] : [options: O];

/** Call makes a call of the API. */
export type Call = <P extends keyof paths, M extends Methods<P>>(
  method: M,
  path: P,
  ...options: Needed<CallOptions<P, M>>
) => Promise<Answer<P, M>>;
