// Lists of more entries than the service sends at once.
import { fetchJSON } from './data.js';
import { useEffect, useRef, useState } from './view.js';

export const maxLimit = 200;

// How many pages of each list were shown, so that Back finds it as long as it was.
const counts = new Map();

// fetchPages returns the pages after the first one, at most count - 1, and the
// cursor of the next one.
async function fetchPages({ token, path, first, count }) {
  const entries = [];
  let when = '';
  if (first.date) when = `&date=${first.date}&include=likes`;
  else if (first.from) when = `&from=${first.from}&to=${first.to}`;
  let cursor = first.next_cursor;
  for (let page = 1; page < count && cursor; page += 1) {
    const query = `?limit=${maxLimit}${when}&cursor=${encodeURIComponent(cursor)}`;
    const body = await fetchJSON(token, path + query);
    entries.push(...body.entries);
    cursor = body.next_cursor;
  }
  return { entries, cursor };
}

// usePages appends further pages to the first one of a list, and fetches them again
// whenever the first one changes. What is shown is always of about one moment, so
// that nobody who moves from one page to another is missing. It returns [entries,
// loadMore, error]; loadMore is null after the last page.
export function usePages(token, path, period, first) {
  const key = `${token} ${path} ${period}`;
  const [count, setCount] = useState(counts.get(key) ?? 1);
  const [attempt, setAttempt] = useState(0);
  const [shown, setShown] = useState({ count: 1 });
  const wanted = useRef(null);
  const busy = useRef(false);
  useEffect(() => {
    if (!first || count === 1) return;
    wanted.current = { key, token, path, first, count };
    if (busy.current) return;
    const load = async () => {
      busy.current = true;
      while (wanted.current) {
        const request = wanted.current;
        wanted.current = null;
        try {
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
  // Somebody who has moved between two calls may be on two pages.
  const byUser = new Map();
  const all = paged ? [...shown.first.entries, ...shown.rest.entries] : (first?.entries ?? []);
  for (const entry of all) {
    if (!byUser.has(entry.user_id)) byUser.set(entry.user_id, entry);
  }
  return [[...byUser.values()], cursor ? loadMore : null, shown.error];
}
