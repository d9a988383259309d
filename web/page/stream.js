// The ranking among friends, kept up to date by a stream of events.
import {
  ApiError,
  errorOf,
  fetchJSON,
  pollInterval,
  readEvents,
  sleep,
  toApiError,
  untilVisible,
  withError,
} from './api.js';
import { useCallback, useEffect, useState } from './view.js';

// The service sends the first event at once and a keep-alive comment every 15 s.
// A stream that is silent for longer is buffered or blocked on the way.
const firstEventTimeout = 5000;
const silenceTimeout = 40000;
const reconnectDelay = 500;
// After this many polls the stream is tried again.
const pollsBeforeStream = 5;

// followStream reads one stream until it ends, fails, falls silent, or the page
// is hidden.
async function followStream(token, path, outerSignal, onRanking) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const abortIfHidden = () => {
    if (document.hidden) abort();
  };
  outerSignal.addEventListener('abort', abort, { once: true });
  document.addEventListener('visibilitychange', abortIfHidden);
  let timer = setTimeout(abort, firstEventTimeout);
  let failure = null;
  try {
    await readEvents(token, path, {
      signal: controller.signal,
      onData: () => {
        clearTimeout(timer);
        timer = setTimeout(abort, silenceTimeout);
      },
      onEvent: (name, data) => {
        if (name === 'ranking') onRanking(data);
        else if (name === 'error') failure = errorOf(token, data.status, data);
      },
    });
  } catch (error) {
    if (!document.hidden || error instanceof ApiError) throw error;
  } finally {
    clearTimeout(timer);
    outerSignal.removeEventListener('abort', abort);
    document.removeEventListener('visibilitychange', abortIfHidden);
  }
  if (failure) throw failure;
}

// subscribe passes the ranking to onRanking(state, data) until the signal aborts.
// It reads the stream; while that fails it polls.
async function subscribe(token, path, query, signal, onRanking, onError) {
  for (let polls = 0; !signal.aborted;) {
    let wait = 0;
    await untilVisible(signal);
    if (polls === 0) {
      try {
        const onEvent = (data) => onRanking('live', data);
        await followStream(token, `${path}/stream${query}`, signal, onEvent);
        await sleep(reconnectDelay, signal);
        continue;
      } catch (cause) {
        if (signal.aborted) return;
        if (cause instanceof ApiError && cause.permanent) {
          onError(cause);
          return;
        }
        wait = cause.wait ?? 0;
        if (wait) onError(cause);
      }
    }
    await sleep(wait, signal);
    try {
      onRanking('polling', await fetchJSON(token, path + query, { signal }));
    } catch (cause) {
      if (signal.aborted) return;
      const error = toApiError(cause);
      onError(error);
      if (error.permanent) return;
      wait = error.wait;
    }
    await sleep(Math.max(pollInterval, wait), signal);
    polls = (polls + 1) % pollsBeforeStream;
  }
}

// useFriendRanking follows a board's ranking among friends. It returns [{data,
// state, error, at}, refresh]; state is loading, live, polling, offline or
// error. Call refresh after a change of one's own, to see it at once.
export function useFriendRanking(token, board, limit) {
  const [result, setResult] = useState({});
  // The limit is not part of the key: the shorter list of the same ranking stays
  // until the longer one is here.
  const key = `${token} ${board}`;
  const path = `/v1/boards/${board}/friends`;
  const query = `?limit=${limit}`;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const onRanking = (state, data) => {
      if (!signal.aborted) setResult({ key, data, state, at: Date.now() });
    };
    const onError = (error) => {
      if (!signal.aborted) setResult(withError(key, error));
    };
    subscribe(token, path, query, signal, onRanking, onError);
    return () => controller.abort();
  }, [token, board, limit]);
  const refresh = useCallback(async () => {
    const data = await fetchJSON(token, path + query);
    setResult((was) => (was.key === key ? { ...was, data, at: Date.now() } : was));
  }, [token, board, limit]);
  return [result.key === key ? result : { state: 'loading' }, refresh];
}
