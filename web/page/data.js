// Data of the service, which keeps itself up to date. Calls and streams are those of
// the client.
import { basePath } from './storage.js';
import { createClient } from './vendor/stepboard.js';
import { useCallback, useEffect, useRef, useState } from './view.js';

let refused = () => {};

// onRefusedToken sets what is called with a token that the service has refused.
export function onRefusedToken(callback) {
  refused = callback;
}

let client;
let clientToken;

// clientOf returns the client of a token, which is null for calls without one. A token
// that is refused is not replaced here: that changes the session.
function clientOf(token) {
  if (!client || clientToken !== token) {
    clientToken = token;
    client = createClient({
      baseUrl: basePath,
      token: (refusedToken) => {
        if (refusedToken) refused(refusedToken);
        return token;
      },
    });
  }
  return client;
}

// utcOffset returns how far the visitor's clock is ahead of UTC, such as +08:00. Boards
// whose days are each user's own need it to know which day it is.
function utcOffset() {
  const minutes = -new Date().getTimezoneOffset();
  const two = (n) => String(Math.trunc(Math.abs(n))).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(minutes / 60)}:${two(minutes % 60)}`;
}

// withOffset adds the offset to a path under /v1/boards.
function withOffset(path) {
  if (!path.startsWith('/v1/boards')) return path;
  const separator = path.includes('?') ? '&' : '?';
  return `${path}${separator}utc_offset=${encodeURIComponent(utcOffset())}`;
}

// fetchJSON makes a call and returns its JSON, or null if there is no content. Its
// errors have the status 0 if there was no response, or the signal has aborted.
export const fetchJSON = (token, path, { method = 'GET', ...options } = {}) =>
  clientOf(token).call(method, method === 'GET' ? withOffset(path) : path, options);

export const longestPage = 200;

// fetchAll returns the entries of all pages of a list, which each page has under a key.
export async function fetchAll(token, path, key, signal) {
  const entries = [];
  let cursor;
  do {
    const query = { limit: longestPage, cursor };
    const page = await fetchJSON(token, path, { query, signal });
    entries.push(...page[key]);
    cursor = page.next_cursor || undefined;
  } while (cursor);
  return entries;
}

// sleep resolves after some milliseconds, or at once when the signal aborts.
const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const abort = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener('abort', abort, { once: true });
  });

// untilVisible resolves once the page can be seen, or the signal aborts.
const untilVisible = (signal) =>
  new Promise((resolve) => {
    if (!document.hidden) {
      resolve();
      return;
    }
    document.addEventListener('visibilitychange', resolve, { once: true, signal });
    signal.addEventListener('abort', resolve, { once: true });
  });

export const pollInterval = 3000;

// useFetch fetches a path, and again every interval milliseconds if that is not
// 0. It fetches nothing while path is null. It returns [{data, state, error,
// at}, retry, replace]; state is loading, ready, offline or error, and at is the
// time of the data, which stays when an error follows. replace(data) sets the data
// to what a change has answered; data that was asked for before is ignored, because it
// may be from before the change.
export function useFetch(token, path, interval = 0) {
  const [result, setResult] = useState({});
  const [attempt, setAttempt] = useState(0);
  const replaced = useRef(0);
  const key = `${token} ${path}`;
  useEffect(() => {
    if (!path) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const poll = async () => {
      while (!signal.aborted) {
        await untilVisible(signal);
        let wait = interval;
        const version = replaced.current;
        try {
          const data = await fetchJSON(token, path, { signal });
          if (!signal.aborted && version === replaced.current)
            setResult({ key, data, state: 'ready', at: Date.now() });
        } catch (error) {
          if (signal.aborted) return;
          const state = error.status === 0 ? 'offline' : 'error';
          setResult((was) => ({ ...(was.key === key ? was : {}), key, error, state }));
          if (error.permanent) return;
          wait = Math.max(wait || pollInterval, error.wait);
        }
        if (!wait) return;
        await sleep(wait, signal);
      }
    };
    poll();
    return () => controller.abort();
  }, [token, path, interval, attempt]);
  const retry = useCallback(() => setAttempt((n) => n + 1), []);
  const replace = useCallback(
    (data) => {
      replaced.current += 1;
      setResult({ key, data, state: 'ready', at: Date.now() });
    },
    [key],
  );
  return [result.key === key ? result : { state: 'loading' }, retry, replace];
}

// useBoard fetches the boards and returns [board, result, retry] as useFetch does. board
// is the one of that name; it is undefined until it is known.
export function useBoard(token, name) {
  const [result, retry] = useFetch(token, '/v1/boards');
  return [result.data?.boards.find((board) => board.name === name), result, retry];
}

// useLiveRanking follows a board's ranking among friends, or of a group, while the page
// can be seen. It returns [{data, state, error, at}, refresh]; state is loading, live,
// polling, offline or error. Call refresh after a change of one's own, to see it at once.
export function useLiveRanking(token, board, limit, group) {
  const [result, setResult] = useState({});
  const live = useRef(null);
  // The limit is not part of the key: the shorter list of the same ranking stays
  // until the longer one is here.
  const key = `${token} ${board} ${group}`;
  useEffect(() => {
    const onChange = ({ state, ranking, error, at }) =>
      setResult((was) => ({
        ...(was.key === key ? was : {}),
        ...(ranking && { data: ranking, at }),
        ...{ key, state, error },
      }));
    const followed = clientOf(token).live({ board, group, limit, utcOffset, onChange });
    const followVisibility = () => {
      if (document.hidden) followed.pause();
      else followed.resume();
    };
    live.current = followed;
    followVisibility();
    document.addEventListener('visibilitychange', followVisibility);
    return () => {
      document.removeEventListener('visibilitychange', followVisibility);
      followed.stop();
    };
  }, [token, board, limit, group]);
  const refresh = useCallback(() => live.current.refresh(), []);
  return [result.key === key ? result : { state: 'loading' }, refresh];
}
