import type { AnyOptions, Connection } from './connection.js';
import { asError, StepboardError, type Problem } from './error.js';
import { newController, platform, type FetchResponse, type StreamReader } from './platform.js';
import type { components } from './schema.js';

export type Ranking = components['schemas']['Ranking'];

// The service sends the first event at once and a keep-alive comment every 15 s. A
// stream that is silent for longer is buffered or blocked on the way.
const firstEventTimeout = 5000;
const silenceTimeout = 25_000;
const reconnectDelay = 500;
const pollInterval = 3000;
// After this many polls the stream is tried again.
const pollsBeforeStream = 5;

/** Who has passed the user: the data of the webhook rank.passed. */
export interface Passed {
  board: string;
  date: string;
  user_id: string;
  /** The user's place now, and before. */
  rank: number;
  was: number;
  /** At most three. */
  passed_by: { user_id: string; nickname: string }[];
}

export interface LiveState {
  /**
   * live: the ranking is of a stream; polling: it is fetched every few seconds; offline:
   * the service was not reached and will be tried again; error: the service has answered
   * an error, and if it is permanent, following has ended.
   */
  state: 'live' | 'polling' | 'offline' | 'error';
  /** The last ranking; null before the first. */
  ranking: Ranking | null;
  /** When the ranking arrived, in milliseconds since 1970. */
  at: number;
  /** The error of states offline and error; otherwise null. */
  error: StepboardError | null;
}

export interface LiveOptions {
  board: string;
  /** Follows the ranking of this group instead of the one among friends. */
  group?: string;
  /** The most entries, 1 to 200; 50 by default. */
  limit?: number;
  /** likes: each entry has its likes, of daily boards only. */
  include?: 'likes';
  /**
   * Returns how far the user's clock is ahead of UTC, such as +08:00. Boards whose time_zone
   * is local need it. It is called for each connection, because clocks change.
   */
  utcOffset?: () => string;
  onChange: (state: LiveState) => void;
  /** Called when somebody has passed the user, if the user wants to be told (`PUT /v1/me/push`). */
  onPassed?: (passed: Passed) => void;
  /** False polls only. The default follows the platform: streams need AbortController and TextDecoder. */
  stream?: boolean;
}

export interface Live {
  /** refresh fetches the ranking now, to show a change of one's own at once. */
  refresh(): Promise<void>;
  /** pause ends the connection until resume is called. Call it when the app is hidden. */
  pause(): void;
  resume(): void;
  /** stop ends following. onChange is not called after it. */
  stop(): void;
}

// readEvents passes the events of a stream to onEvent until it ends, and calls onData
// for everything that arrives, keep-alive comments included.
async function readEvents(
  reader: StreamReader,
  onData: () => void,
  onEvent: (name: string, data: unknown) => void,
): Promise<void> {
  const decoder = new platform.TextDecoder!();
  for (let rest = ''; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    onData();
    const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
    rest = blocks.pop() as string;
    for (const block of blocks) {
      const field = (name: string): string =>
        block
          .split('\n')
          .filter((line) => line.startsWith(name))
          .map((line) => line.slice(name.length))
          .join('\n');
      const data = field('data: ');
      if (data) onEvent(field('event: '), JSON.parse(data));
    }
  }
}

/** followRanking follows the ranking among friends, or of a group, on a board. */
export function followRanking(
  connection: Connection,
  { board, group, limit = 50, include, utcOffset, onChange, onPassed, stream = true }: LiveOptions,
): Live {
  const { clock } = connection;
  const path = `/v1/boards/{board}/${group ? 'groups/{group}' : 'friends'}`;
  const options = (): AnyOptions => ({
    path: { board, ...(group && { group }) },
    query: { limit, include, utc_offset: utcOffset?.() },
  });
  let streams = stream && !!platform.AbortController && !!platform.TextDecoder;
  let last: LiveState = { state: 'offline', ranking: null, at: 0, error: null };
  // Each run has a number; one whose number is not the current one has ended.
  let current = 0;
  let paused = true;
  let stopped = false;
  let interrupt = (): void => {};

  const show = (state: LiveState['state'], ranking: Ranking): void => {
    last = { state, ranking, at: clock.now(), error: null };
    onChange(last);
  };
  const fail = (error: StepboardError): void => {
    last = { ...last, state: error.status ? 'error' : 'offline', error };
    onChange(last);
  };
  const sleep = (milliseconds: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = clock.setTimeout(resolve, milliseconds);
      interrupt = () => {
        clock.clearTimeout(timer);
        resolve();
      };
    });
  const poll = async (): Promise<Ranking> =>
    (await connection.json('GET', path, options())) as Ranking;

  // follow reads one stream until it ends, fails, falls silent or is interrupted.
  const follow = async (run: number): Promise<void> => {
    const controller = newController()!;
    let silence = (): void => {};
    const silent = new Promise<never>((_, reject) => {
      silence = () => {
        controller.abort();
        reject(new StepboardError(0));
      };
    });
    silent.catch(() => {});
    interrupt = silence;
    let timer = clock.setTimeout(silence, firstEventTimeout);
    const onData = (): void => {
      clock.clearTimeout(timer);
      timer = clock.setTimeout(silence, silenceTimeout);
    };
    let seen = false;
    let failure: StepboardError | undefined;
    const onEvent = (name: string, data: unknown): void => {
      if (run !== current) return;
      seen = true;
      if (name === 'ranking') show('live', data as Ranking);
      if (name === 'passed') onPassed?.(data as Passed);
      if (name === 'error') failure = new StepboardError((data as Problem).status, data as Problem);
    };
    const read = async (): Promise<void> => {
      const open = (response: FetchResponse): Promise<FetchResponse> => Promise.resolve(response);
      const { body } = await connection.send(
        'GET',
        `${path}/stream`,
        { ...options(), controller },
        open,
      );
      if (!body?.getReader) {
        streams = false;
        throw new StepboardError(0);
      }
      await readEvents(body.getReader(), onData, onEvent);
    };
    try {
      await Promise.race([read(), silent]);
    } finally {
      clock.clearTimeout(timer);
      controller.abort();
    }
    if (failure?.status === 401) await connection.expire();
    else if (failure) throw failure;
    if (!seen) throw new StepboardError(0);
  };

  const runUntilPaused = async (run: number): Promise<void> => {
    for (let polls = 0; run === current;) {
      let wait = 0;
      if (polls === 0 && streams) {
        try {
          await follow(run);
          if (run === current) await sleep(reconnectDelay);
          continue;
        } catch (cause) {
          if (run !== current) return;
          const error = asError(cause);
          // What was live is not any more, however long the next answer takes.
          if (error.permanent || error.wait || last.state === 'live') fail(error);
          if (error.permanent) return;
          wait = error.wait;
        }
      }
      if (wait) await sleep(wait);
      if (run !== current) return;
      wait = 0;
      try {
        const ranking = await poll();
        if (run === current) show('polling', ranking);
      } catch (cause) {
        if (run !== current) return;
        const error = asError(cause);
        fail(error);
        if (error.permanent) return;
        wait = error.wait;
      }
      if (run === current) await sleep(Math.max(pollInterval, wait));
      polls = (polls + 1) % pollsBeforeStream;
    }
  };

  const pause = (): void => {
    paused = true;
    current += 1;
    interrupt();
  };
  const resume = (): void => {
    if (!paused || stopped) return;
    paused = false;
    void runUntilPaused(current);
  };
  resume();
  return {
    pause,
    resume,
    stop: () => {
      stopped = true;
      pause();
    },
    refresh: async () => {
      const ranking = await poll();
      if (!stopped) show(last.state === 'live' ? 'live' : 'polling', ranking);
    },
  };
}
