// Data of the service, which keeps itself up to date, and rankings of more entries than the service
// sends at once. Calls and streams are those of the client.
import { basePath, sessionKey, store } from './storage.js';
import { createClient } from './vendor/stepboard.js';
import { useCallback, useEffect, useRef, useState } from './view.js';

// Whether the service can be reached is known here alone, for all calls and streams. After a second
// call without an answer the next ones wait, in milliseconds, and twice as long after each further one.
const firstDelay = 2000;
const longestDelay = 30_000;

let failures = 0; // calls in a row without an answer; those that began together count once
let failedAt = 0;
const onTryAgain = new Set();

const delay = () => (failures < 2 ? 0 : Math.min(firstDelay * 2 ** (failures - 2), longestDelay));

// tryAgain lets everything that waits for the service try again now.
export function tryAgain() {
  failures = Math.min(failures, 1);
  [...onTryAgain].forEach((call) => call());
}

// tryNow is tryAgain if something waits. Otherwise a live stream would begin anew.
export const tryNow = () => failures && tryAgain();

// wait resolves after some milliseconds, or at once when the signal aborts or tryAgain is called.
export const wait = (ms, signal) =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      onTryAgain.delete(end);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    onTryAgain.add(end);
    signal?.addEventListener('abort', end);
  });

// A page without a network finds out at once, as one that has it again.
addEventListener('online', tryAgain);
addEventListener('offline', tryAgain);
document.addEventListener('visibilitychange', () => {
  if (failures && !document.hidden) tryAgain();
});

// reach is fetch. While the service is away, it waits before it asks.
async function reach(address, options) {
  const { signal } = options;
  const left = failedAt + delay() - Date.now();
  if (left > 0) await wait(left, signal);
  const before = failures;
  try {
    const response = await fetch(address, options);
    failures = 0;
    return response;
  } catch (error) {
    if (!signal?.aborted && failures === before) {
      failures += 1;
      failedAt = Date.now();
    }
    throw error;
  }
}

let refused = () => {};

// onRefused sets what is called with a client whose token the service has refused.
export function onRefused(callback) {
  refused = callback;
}

let created = 0;

// newClient returns a client of who is signed in: nothing else knows the token. Its key tells it from all other
// clients of this page. askToken is called as the client's option token says, with the client behind it.
function newClient(askToken) {
  created += 1;
  const client = createClient({
    baseUrl: basePath,
    fetch: reach,
    token: (refusedToken) => askToken(refusedToken, client),
  });
  client.key = String(created);
  return client;
}

// clientOf returns a client that makes calls with a token, or without one if it is null.
export const clientOf = (token) =>
  newClient((refusedToken, client) => {
    if (refusedToken) refused(client);
    return token;
  });

const nobody = clientOf(null);

// sessionClient returns a client of this device's session, whose cookie the page can't read. It gets tokens for a
// scope, if one is given, and another one when one has ended. With the first one it knows whether the user is an
// operator. Without a connection nobody is signed out. All tokens are of one user: once somebody else has signed in in
// another window, the page begins anew, and no call is made for them before.
export const sessionClient = (scope, user) =>
  newClient(async (_, client) => {
    try {
      const options = { body: scope ? { scope } : {} };
      const got = await nobody.call('POST', '/v1/session/token', options);
      user ??= got.user_id;
      if (got.user_id !== user) {
        store(sessionKey, JSON.stringify({ user_id: got.user_id, nickname: '' }));
        location.reload();
        await new Promise(() => {});
      }
      client.operator = got.operator;
      return got.token;
    } catch (error) {
      if (error.status === 401 || error.status === 403) refused(client);
      throw error;
    }
  });

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
export const fetchJSON = (client, path, { method = 'GET', ...options } = {}) =>
  (client ?? nobody).call(method, method === 'GET' ? withOffset(path) : path, options);

export const longestPage = 200;

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
export function useFetch(client, path, interval = 0) {
  const [result, setResult] = useState({});
  const [attempt, setAttempt] = useState(0);
  const replaced = useRef(0);
  const key = `${client?.key} ${path}`;
  useEffect(() => {
    if (!path) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const poll = async () => {
      while (!signal.aborted) {
        await untilVisible(signal);
        let pause = interval;
        const version = replaced.current;
        try {
          const data = await fetchJSON(client, path, { signal });
          if (!signal.aborted && version === replaced.current)
            setResult({ key, data, state: 'ready', at: Date.now() });
        } catch (error) {
          if (signal.aborted) return;
          const state = error.status === 0 ? 'offline' : 'error';
          setResult((was) => ({ ...(was.key === key ? was : {}), key, error, state }));
          if (error.permanent) return;
          pause = Math.max(pause || pollInterval, error.wait);
        }
        if (!pause) return;
        await wait(pause, signal);
      }
    };
    poll();
    return () => controller.abort();
  }, [client, path, interval, attempt]);
  const retry = useCallback(() => {
    tryNow();
    setAttempt((n) => n + 1);
  }, []);
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
export function useBoard(client, name) {
  const [result, retry] = useFetch(client, '/v1/boards');
  return [result.data?.boards.find((board) => board.name === name), result, retry];
}

// useLiveRanking follows a board's ranking among friends, or of a group, while the page
// can be seen, with likes if include says so, which only daily boards have. It returns
// [{data, state, error, at}, refresh]; state is loading, live, polling, offline or error.
// Call refresh after a change of one's own, to see it at once. onPassed, which must not change, is
// called with those who have passed the viewer, if the viewer wants to know.
export function useLiveRanking(client, { board, group, limit, include, onPassed }) {
  const [result, setResult] = useState({});
  const live = useRef(null);
  // The limit is not part of the key: the shorter list of the same ranking stays
  // until the longer one is here.
  const key = `${client?.key} ${board} ${group}`;
  useEffect(() => {
    const onChange = ({ state, ranking, error, at }) =>
      setResult((was) => ({
        ...(was.key === key ? was : {}),
        ...(ranking && { data: ranking, at }),
        ...{ key, state, error },
      }));
    const options = { board, group, limit, include, utcOffset, onChange, onPassed };
    const followed = client.live(options);
    const followVisibility = () => {
      if (document.hidden) followed.pause();
      else followed.resume();
    };
    live.current = followed;
    followVisibility();
    document.addEventListener('visibilitychange', followVisibility);
    const restart = () => {
      followed.pause();
      followVisibility();
    };
    onTryAgain.add(restart);
    return () => {
      document.removeEventListener('visibilitychange', followVisibility);
      onTryAgain.delete(restart);
      followed.stop();
    };
  }, [client, board, limit, group, include]);
  const refresh = useCallback(() => live.current.refresh(), []);
  return [result.key === key ? result : { state: 'loading' }, refresh];
}

// How many pages of each list were shown, so that Back finds it as long as it was.
const counts = new Map();

// usePages appends further pages to the first one of a list, and fetches them again
// whenever the first one changes. What is shown is always of about one moment, so
// that nobody who moves from one page to another is missing. It returns [entries,
// loadMore, error]; loadMore is null after the last page.
export function usePages(client, path, period, first) {
  const key = `${client?.key} ${path} ${period}`;
  const [count, setCount] = useState(counts.get(key) ?? 1);
  const [attempt, setAttempt] = useState(0);
  const [shown, setShown] = useState({ count: 1 });
  const wanted = useRef(null);
  const busy = useRef(false);
  useEffect(() => {
    if (!first || count === 1) return;
    wanted.current = { key, client, path, first, count };
    if (busy.current) return;
    const load = async () => {
      busy.current = true;
      while (wanted.current) {
        const request = wanted.current;
        wanted.current = null;
        try {
          const { fetchPages } = await import('./pages.js');
          setShown({ ...request, rest: await fetchPages(request) });
        } catch (error) {
          setShown((was) => ({ ...was, error }));
        }
      }
      busy.current = false;
    };
    load();
  }, [key, first, count, attempt]);
  const paged = shown.key === key;
  const loadMore = () => {
    const next = (paged ? shown.count : 1) + 1;
    counts.set(key, next);
    setCount(next);
    setAttempt(attempt + 1);
  };
  const cursor = paged ? shown.rest.cursor : first?.next_cursor;
  // Somebody who has moved between two calls may be on two pages. An anonymous line has only its place.
  const byUser = new Map();
  const all = paged ? [...shown.first.entries, ...shown.rest.entries] : (first?.entries ?? []);
  for (const entry of all) {
    const who = entry.user_id ?? entry.rank;
    if (!byUser.has(who)) byUser.set(who, entry);
  }
  return [[...byUser.values()], cursor ? loadMore : null, shown.error];
}
