// Calls of the API.
import { useCallback, useEffect, useState } from './view.js';

// ApiError is an error response of the service. Its status is 0 if there was no
// response. Its message is for developers; people are shown a text by its code.
export class ApiError extends Error {
  constructor(status, body, seconds) {
    super(body?.detail ?? '');
    this.status = status;
    this.code = body?.code ?? '';
    // locations are the places in the request that the service refuses, such as
    // body.nickname.
    this.locations = (body?.errors ?? []).map((error) => error.location);
    // wait is how many milliseconds the service wants to be left alone.
    this.wait = 1000 * (Number(seconds) || 0);
  }

  // permanent reports whether the same request would fail again.
  get permanent() {
    return this.status >= 400 && this.status < 500 && this.status !== 429;
  }
}

let refused = () => {};

// onRefusedToken sets what is called with a token that the service has refused.
export function onRefusedToken(callback) {
  refused = callback;
}

const isAbort = (error) => error.name === 'AbortError';

// toApiError returns the error itself if it is an ApiError, and otherwise one of
// status 0.
export const toApiError = (error) => (error instanceof ApiError ? error : new ApiError(0));

// errorOf returns the error that the service has sent, as a response or as an event
// of a stream. It reports a refused token.
export function errorOf(token, status, body, seconds) {
  if (status === 401) refused(token);
  return new ApiError(status, body, seconds);
}

async function send(token, path, { method = 'GET', body, signal } = {}) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0);
  }
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw errorOf(token, response.status, body, response.headers.get('Retry-After'));
  }
  return response;
}

// fetchJSON makes a call and returns its JSON, or null if there is no content.
export async function fetchJSON(token, path, options) {
  const response = await send(token, path, options);
  if (response.status === 204) return null;
  return response.json().catch((error) => {
    if (isAbort(error)) throw error;
    throw new ApiError(0);
  });
}

export const friendPage = 200;

// fetchAllFriends returns all pages of the list of friends.
export async function fetchAllFriends(token, signal) {
  const friends = [];
  let cursor = '';
  do {
    const path = `/v1/friends?limit=${friendPage}${cursor}`;
    const page = await fetchJSON(token, path, { signal });
    friends.push(...page.friends);
    cursor = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : '';
  } while (cursor);
  return friends;
}

// readEvents reads server-sent events until the stream ends. It calls
// onEvent(name, data) for each event, and onData for everything that arrives,
// keep-alive comments included.
export async function readEvents(token, path, { signal, onEvent, onData }) {
  const response = await send(token, path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let chunk;
    try {
      chunk = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ApiError(0);
    }
    if (chunk.done) return;
    onData();
    const blocks = (rest + chunk.value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      let name = 'message';
      let data = '';
      for (const line of block.split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      if (data) onEvent(name, JSON.parse(data));
    }
  }
}

// sleep resolves after some milliseconds, or at once when the signal aborts.
export const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const abort = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener('abort', abort, { once: true });
  });

// untilVisible resolves once the page can be seen, or the signal aborts.
export const untilVisible = (signal) =>
  new Promise((resolve) => {
    if (!document.hidden) {
      resolve();
      return;
    }
    document.addEventListener('visibilitychange', resolve, { once: true, signal });
    signal.addEventListener('abort', resolve, { once: true });
  });

export const pollInterval = 3000;

// withError adds an error to a result, and keeps its data if they are of the same
// request.
export const withError = (key, error) => (previous) => ({
  ...(previous.key === key ? previous : {}),
  key,
  error,
  state: error.status === 0 ? 'offline' : 'error',
});

// useFetch fetches a path, and again every interval milliseconds if that is not
// 0. It fetches nothing while path is null. It returns [{data, state, error,
// at}, retry]; state is loading, ready, offline or error, and at is the time of
// the data.
export function useFetch(token, path, interval = 0) {
  const [result, setResult] = useState({});
  const [attempt, setAttempt] = useState(0);
  const key = `${token} ${path}`;
  useEffect(() => {
    if (!path) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const poll = async () => {
      while (!signal.aborted) {
        await untilVisible(signal);
        let wait = interval;
        try {
          const data = await fetchJSON(token, path, { signal });
          if (!signal.aborted) setResult({ key, data, state: 'ready', at: Date.now() });
        } catch (cause) {
          if (signal.aborted) return;
          const error = toApiError(cause);
          setResult(withError(key, error));
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
  return [result.key === key ? result : { state: 'loading' }, retry];
}

// useBoard fetches the boards and returns [board, result, retry] as useFetch does. board
// is the one of that name; it is undefined until it is known.
export function useBoard(token, name) {
  const [result, retry] = useFetch(token, '/v1/boards');
  return [result.data?.boards.find((board) => board.name === name), result, retry];
}
