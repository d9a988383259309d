// Data that keeps itself up to date.
import { call, Problem, stream } from './api.js';
import { useCallback, useEffect, useState } from './view.js';

// The service's first event comes at once and a sign of life every 15 s; what
// is later has been held up on the way.
const firstEvent = 5000;
const silence = 40000;
const pollEvery = 3000;
// After so many polls the stream is tried again.
const pollsPerTry = 5;

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });

const visible = (signal) =>
  new Promise((resolve) => {
    if (!document.hidden) {
      resolve();
      return;
    }
    document.addEventListener('visibilitychange', resolve, { once: true, signal });
    signal.addEventListener('abort', resolve, { once: true });
  });

// once streams until it ends or something is wrong with it.
async function once(token, path, outer, onRanking) {
  const own = new AbortController();
  const abort = () => own.abort();
  outer.addEventListener('abort', abort, { once: true });
  const hide = () => {
    if (document.hidden) abort();
  };
  document.addEventListener('visibilitychange', hide);
  let timer = setTimeout(abort, firstEvent);
  let failure = null;
  try {
    await stream(token, path, {
      signal: own.signal,
      onLife: () => {
        clearTimeout(timer);
        timer = setTimeout(abort, silence);
      },
      onEvent: (name, data) => {
        if (name === 'ranking') onRanking(data);
        else if (name === 'error') failure = new Problem(data.status, data);
      },
    });
  } catch (error) {
    if (!document.hidden || error instanceof Problem) throw error;
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', abort);
    document.removeEventListener('visibilitychange', hide);
  }
  if (failure) throw failure;
}

const hopeless = (error) =>
  error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429;

// useLive follows a ranking among friends: by the stream, and where that does
// not work by asking again and again. It answers {data, state, problem, at};
// renew asks at once, for who has just done something.
export function useLive(token, board, limit) {
  const [result, set] = useState({});
  // A longer list of the same ranking comes while the shorter one is shown.
  const key = `${token} ${board}`;
  useEffect(() => {
    const control = new AbortController();
    const { signal } = control;
    const got = (state) => (data) => signal.aborted || set({ key, data, state, at: Date.now() });
    const lost = (problem) =>
      signal.aborted ||
      set((was) => ({
        ...(was.key === key ? was : {}),
        key,
        problem,
        state: problem.status === 0 ? 'offline' : 'error',
      }));
    const path = `/v1/boards/${board}/friends`;
    (async () => {
      for (let polls = 0; !signal.aborted;) {
        await visible(signal);
        try {
          if (polls === 0) {
            await once(token, `${path}/stream?limit=${limit}`, signal, got('live'));
            await pause(500, signal);
            continue;
          }
        } catch (error) {
          if (signal.aborted) return;
          if (hopeless(error)) {
            lost(error);
            return;
          }
        }
        try {
          got('polling')(await call(token, `${path}?limit=${limit}`, { signal }));
        } catch (error) {
          if (signal.aborted) return;
          lost(error instanceof Problem ? error : new Problem(0));
          if (hopeless(error)) return;
        }
        await pause(pollEvery, signal);
        polls = (polls + 1) % pollsPerTry;
      }
    })();
    return () => control.abort();
  }, [token, board, limit]);
  const renew = useCallback(async () => {
    const data = await call(token, `/v1/boards/${board}/friends?limit=${limit}`);
    set((was) => (was.key === key ? { ...was, data, at: Date.now() } : was));
  }, [token, board, limit]);
  return [result.key === key ? result : { state: 'loading' }, renew];
}

// useCall makes a call, again every so many milliseconds where that is given.
export function useCall(token, path, every = 0) {
  const [result, set] = useState({});
  const [turn, again] = useState(0);
  const key = `${token} ${path}`;
  useEffect(() => {
    if (!path) return undefined;
    const control = new AbortController();
    const { signal } = control;
    (async () => {
      while (!signal.aborted) {
        await visible(signal);
        let wait = every;
        try {
          const data = await call(token, path, { signal });
          if (!signal.aborted) set({ key, data, state: 'ready', at: Date.now() });
        } catch (error) {
          if (signal.aborted) return;
          const problem = error instanceof Problem ? error : new Problem(0);
          set((was) => ({
            ...(was.key === key ? was : {}),
            key,
            problem,
            state: problem.status === 0 ? 'offline' : 'error',
          }));
          if (hopeless(problem)) return;
          wait ||= pollEvery;
        }
        if (!wait) return;
        await pause(wait, signal);
      }
    })();
    return () => control.abort();
  }, [token, path, every, turn]);
  return [
    result.key === key ? result : { state: 'loading' },
    useCallback(() => again((n) => n + 1), []),
  ];
}
