import type { Connection } from './connection.js';
import { asError, StepboardError, type Rejection } from './error.js';
import type { Storage } from './platform.js';

// The most days of one call.
const maxItems = 31;
const firstDelay = 1000;
const longestDelay = 60_000;
// The delay after which a day is sent again that has not begun on the board.
const earlyDelay = 3_600_000;

export interface DayTotal {
  date: string;
  score: number;
}

export interface UploadOptions {
  board: string;
  /** The user's id. Totals of one user are never sent with the token of another one. */
  user: string;
  storage: Storage;
  /** The board's order; high by default. With low the lowest score of a day is the best. */
  order?: 'high' | 'low';
  /**
   * Is called once for each total that the service refuses for good. It is dropped. A day
   * that has not begun on the board is kept, and sent again after an hour or by flush.
   */
  onRefused: (total: DayTotal, error: StepboardError) => void;
  /** Is called when a total is acknowledged. */
  onAccepted?: (total: DayTotal) => void;
  /**
   * Is called after onAccepted for a total that is unusually large: it counts only once an
   * operator has looked at it. A lower total that was added meanwhile is sent then.
   */
  onHeld?: (total: DayTotal) => void;
  /** A number from 0 up to 1, by which delays differ between phones; Math.random by default. */
  random?: () => number;
}

export interface Uploads {
  /**
   * add keeps a day's total, rounded down, in the storage unless a better one of the day is
   * there, and sends it in the background. It throws a TypeError unless the date has the form
   * YYYY-MM-DD and the score is a number from 0 on, and otherwise what the storage throws.
   */
  add(date: string, score: number): Promise<void>;
  /**
   * flush sends what is kept, now. Call it when the app starts, comes to the front or is
   * online again. It resolves when everything is sent, or has to wait.
   */
  flush(): Promise<void>;
  /** pending returns what is not acknowledged yet, by date. */
  pending(): Promise<DayTotal[]>;
  /** stop ends sending. What is kept stays in the storage. */
  stop(): void;
}

type Totals = Record<string, number>;

interface UploadAnswer {
  accepted?: { date: string; held?: boolean }[];
  rejected?: Rejection[];
}

const listOf = (totals: Totals): DayTotal[] =>
  Object.keys(totals)
    .sort()
    .map((date) => ({ date, score: totals[date] as number }));

function parse(text: string | null): Totals {
  try {
    const totals = JSON.parse(text ?? '{}') as Totals;
    return Object.fromEntries(
      Object.entries(totals).filter(([, score]) => Number.isInteger(score)),
    );
  } catch {
    return {};
  }
}

/** keepUploads returns Uploads whose only state that lasts is in the storage. */
export function keepUploads(connection: Connection, options: UploadOptions): Uploads {
  const { board, user, storage, onRefused, onAccepted, onHeld, random = Math.random } = options;
  const isBetter = (a: number, b: number): boolean => (options.order === 'low' ? a < b : a > b);
  const { clock } = connection;
  const key = `stepboard:${board}:${user}`;
  let lastChange: Promise<unknown> = Promise.resolve();
  let sending: Promise<void> | undefined;
  let again = false;
  let stopped = false;
  let timer: unknown;
  let failures = 0;
  // The time before which the service wants no upload.
  let notBefore = 0;
  let most = maxItems;
  // The last totals that were added and are not better than those that are kept.
  const worse: Totals = {};
  // The days that the service has called future ones in this run.
  const early = new Set<string>();
  let earlyTimer: unknown;

  // change edits the stored totals. Changes follow one another, and each reads the
  // storage, which other windows write, too.
  const change = (edit: (totals: Totals) => boolean): Promise<Totals> => {
    const result = lastChange.then(async () => {
      const totals = parse(await storage.getItem(key));
      if (edit(totals)) {
        if (Object.keys(totals).length) await storage.setItem(key, JSON.stringify(totals));
        else await storage.removeItem(key);
      }
      return totals;
    });
    lastChange = result.catch(() => {});
    return result;
  };
  const read = (): Promise<DayTotal[]> => change(() => false).then(listOf);
  // drop removes totals, unless a better one has been added meanwhile. Of the days that held names,
  // it keeps the last total instead, because that counts.
  const drop = (items: DayTotal[], held: string[] = []): Promise<Totals> =>
    change((totals) => {
      for (const { date, score } of items) {
        const kept = totals[date];
        if (kept === undefined || isBetter(kept, score)) continue;
        const last = worse[date];
        if (held.includes(date) && last !== undefined) totals[date] = last;
        else delete totals[date];
        delete worse[date];
      }
      return true;
    });

  const later = (delay: number): void => {
    clock.clearTimeout(timer);
    timer = stopped ? undefined : clock.setTimeout(run, delay);
  };

  // refuse drops what the service has refused: the items that the error names, or a
  // single one. Otherwise the items are sent one by one to find out.
  const refuse = async (items: DayTotal[], error: StepboardError): Promise<void> => {
    const named = items.filter((_, i) =>
      error.locations.some((at) => at.startsWith(`body.scores[${i}]`)),
    );
    const refused = items.length === 1 ? items : named;
    if (!refused.length) {
      most = 1;
      return;
    }
    await drop(refused);
    for (const item of refused) onRefused(item, error);
  };

  // settle ends a call. An item that the service has not rejected by itself shares the error
  // of the call; without one it is accepted.
  const settle = async (
    items: DayTotal[],
    rejected: readonly Rejection[],
    held: string[],
    error?: StepboardError,
  ): Promise<void> => {
    const errors = items.map((_, i) => {
      const rejection = rejected.find(({ index }) => index === i);
      return rejection ? new StepboardError(422, rejection) : error;
    });
    const isEarly = (i: number): boolean => errors[i]?.code === 'date_in_future';
    await drop(
      items.filter((_, i) => !isEarly(i)),
      held,
    );
    items.forEach((item, i) => {
      const reason = errors[i];
      if (isEarly(i)) early.add(item.date);
      else if (reason) onRefused(item, reason);
      else {
        onAccepted?.(item);
        if (held.includes(item.date)) onHeld?.(item);
      }
    });
  };

  // sendOnce sends some totals. It returns false if there are none or they have to wait.
  const sendOnce = async (): Promise<boolean> => {
    const wait = notBefore - clock.now();
    if (wait > 0) {
      later(wait);
      return false;
    }
    const items = (await read()).filter(({ date }) => !early.has(date)).slice(-most);
    if (!items.length || stopped) {
      most = maxItems;
      return false;
    }
    let rejected: readonly Rejection[];
    let refusal: StepboardError | undefined;
    let held: string[] = [];
    try {
      const answer = (await connection.json('POST', '/v1/boards/{board}/scores', {
        path: { board },
        body: { scores: items },
      })) as UploadAnswer | null;
      rejected = answer?.rejected ?? [];
      held = (answer?.accepted ?? []).filter((total) => total.held).map(({ date }) => date);
    } catch (cause) {
      refusal = asError(cause);
      if (!refusal.permanent || refusal.status === 401) {
        failures += 1;
        notBefore = clock.now() + refusal.wait;
        later(
          Math.max(
            refusal.wait,
            Math.min(longestDelay, firstDelay * 2 ** (failures - 1)) * (0.5 + random() / 2),
          ),
        );
        return false;
      }
      rejected = refusal.rejected;
    }
    failures = 0;
    if (refusal && !rejected.length) await refuse(items, refusal);
    else await settle(items, rejected, held, refusal);
    return true;
  };

  // run sends until nothing is left or it has to wait. There is one run at a time.
  const run = (): Promise<void> => {
    clock.clearTimeout(earlyTimer);
    clock.clearTimeout(timer);
    timer = undefined;
    if (sending) {
      again = true;
      return sending;
    }
    early.clear();
    const work = async (): Promise<void> => {
      try {
        do {
          again = false;
          while (!stopped && (await sendOnce()));
        } while (again && !stopped && timer === undefined);
      } catch {
        later(longestDelay); // the storage failed
      } finally {
        sending = undefined;
        if (early.size && !stopped) earlyTimer = clock.setTimeout(run, earlyDelay);
      }
    };
    sending = work();
    return sending;
  };

  return {
    add: async (date, measured) => {
      if (!/^\d{4}-\d\d-\d\d$/.test(date)) throw new TypeError(`${date} is not YYYY-MM-DD`);
      // A total of HealthKit has a fraction.
      const score = Number.isFinite(measured) ? Math.floor(measured) : -1;
      if (score < 0) throw new TypeError(`${measured} is not a number from 0 on`);
      await change((totals) => {
        const kept = totals[date];
        if (kept !== undefined && !isBetter(score, kept)) {
          worse[date] = score;
          return false;
        }
        delete worse[date];
        totals[date] = score;
        return true;
      });
      // A timer means that the service wants, or needs, a pause.
      if (timer === undefined && !stopped) void run();
    },
    flush: () => (stopped ? Promise.resolve() : run()),
    pending: read,
    stop: () => {
      stopped = true;
      clock.clearTimeout(earlyTimer);
      clock.clearTimeout(timer);
    },
  };
}
