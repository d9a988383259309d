// What the page has without a connection: the last ranking, in its own storage, and its files,
// which the service worker keeps. Both go when the visitor signs out.
import { lazy } from './components.js';
import { forget, pushKey, read, store } from './storage.js';
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

// forgetKept removes the ranking, the worker and the files that it keeps. With the client of somebody who
// signs out, it ends the notifications, too.
export async function forgetKept(client) {
  forget(storageKey);
  try {
    if (client && read(pushKey)) await (await import('./push.js')).endPush(client);
    await (await import('./registration.js')).unregister();
  } catch {
    // Without a connection the worker stays.
  }
}

// useKept keeps the last ranking of a user's friends, for the same user. It takes what
// useLiveRanking returns, and adds the kept ranking while there is none: as data if it is fresh,
// otherwise as old.
export function useKept(session, group, result) {
  const { board, user } = session;
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

// keptForDemo returns the kept ranking if the people of the demo can't be asked for.
export const keptForDemo = (error) => (error?.status === 0 ? readKept() : null);
