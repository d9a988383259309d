import type { components } from './schema.js';

export type Problem = components['schemas']['Problem'];
export type ErrorCode = components['schemas']['ErrorCode'];
export type Rejection = components['schemas']['RejectedDayTotal'];

/** StepboardError is a call that failed. */
export class StepboardError extends Error {
  /** The HTTP status; 0 if there was no whole answer. */
  readonly status: number;
  /** What kind of error it is; '' if the answer was not of the service. */
  readonly code: ErrorCode | '';
  /** The milliseconds that the service wants to be left alone; 0 if it does not say. */
  readonly wait: number;
  /** The places in the request that are wrong, such as body.nickname. */
  readonly locations: readonly string[];
  /** The days of an upload, if none was accepted. */
  readonly rejected: readonly Rejection[];
  /** The id of the request in the service's log. */
  readonly requestId: string;

  constructor(status: number, problem?: Partial<Problem> | null, seconds?: string | null) {
    super(problem?.detail ?? (status ? `the service answered ${status}` : 'there was no answer'));
    this.name = 'StepboardError';
    this.status = status;
    this.code = problem?.code ?? '';
    this.wait = 1000 * (Number(seconds) || 0);
    this.locations = (problem?.errors ?? []).map((error) => error.location);
    this.rejected = problem?.rejected ?? [];
    this.requestId = problem?.request_id ?? '';
  }

  /** permanent reports whether the same request would fail again. */
  get permanent(): boolean {
    return this.status >= 400 && this.status < 500 && ![408, 429].includes(this.status);
  }
}

export const asError = (error: unknown): StepboardError =>
  error instanceof StepboardError ? error : new StepboardError(0);
