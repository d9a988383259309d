// What the page has without a connection: the last ranking, in its own storage, and its files,
// which the service worker keeps. Both go when the visitor signs out.
import { lazy } from './components.js';
import { forget, read, store } from './storage.js';
import { useEffect, useState } from './view.js';

export const KeptRanking = lazy(() => import('./kept.js').then((module) => module.KeptRanking));

const storageKey = 'ranking';
// A younger ranking, in milliseconds, stands for today's until that is there.
const freshTime = 10 * 60 * 1000;

// readKept returns what is kept, {user, board, ranking, at}, or null.
function readKept() {
  try {
    const kept = JSON.parse(read(storageKey));
    return Array.isArray(kept?.ranking?.entries) ? kept : null;
  } catch {
    return null; // it is not the page's
  }
}

// forgetKept removes the ranking, the worker and the files that it keeps.
export function forgetKept() {
  forget(storageKey);
  import('./registration.js').then(
    ({ unregister }) => unregister(),
    () => {},
  );
}

// useKept keeps the last ranking of a user's friends. It takes what useLiveRanking returns, and adds
// the kept ranking while there is none: as data if it is fresh, otherwise as old.
export function useKept({ user, board }, group, result) {
  const { data, at } = result;
  useEffect(() => {
    if (!data || group) return;
    store(storageKey, JSON.stringify({ user: user.user_id, board, ranking: data, at }));
  }, [data]);
  useEffect(() => {
    if (data)
      import('./registration.js').then(
        ({ register }) => register(),
        () => {},
      );
  }, [!data]);
  const [kept] = useState(readKept);
  if (data || group || kept?.user !== user.user_id || kept.board !== board) return result;
  if (Date.now() - kept.at < freshTime) return { ...result, data: kept.ranking, at: kept.at };
  return { ...result, old: kept };
}

// useOffline returns the kept ranking if nobody can sign in because there is no connection.
export function useOffline(login, { error, retry }) {
  const [online, setOnline] = useState(navigator.onLine);
  useEffect(() => {
    const change = () => {
      setOnline(navigator.onLine);
      if (error && navigator.onLine) retry();
    };
    addEventListener('online', change);
    addEventListener('offline', change);
    return () => {
      removeEventListener('online', change);
      removeEventListener('offline', change);
    };
  }, [error]);
  const isOffline = error ? error.status === 0 : !online;
  return !login && isOffline ? readKept() : null;
}
