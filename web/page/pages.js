// Lists of several pages. This is loaded with what shows more than the first page.
import { fetchJSON, longestPage } from './data.js';

// fetchAll returns the entries of all pages of a list, which each page has under a key.
export async function fetchAll(client, path, key, signal) {
  const entries = [];
  let cursor;
  do {
    const query = { limit: longestPage, cursor };
    const page = await fetchJSON(client, path, { query, signal });
    entries.push(...page[key]);
    cursor = page.next_cursor;
  } while (cursor);
  return entries;
}

// fetchPages returns the pages after the first one, at most count - 1, and the
// cursor of the next one.
export async function fetchPages({ client, path, first, count }) {
  const entries = [];
  let when = '';
  if (first.date) when = `&date=${first.date}&include=likes`;
  else if (first.from) when = `&from=${first.from}&to=${first.to}`;
  let cursor = first.next_cursor;
  for (let page = 1; page < count && cursor; page += 1) {
    const query = `?limit=${longestPage}${when}&cursor=${encodeURIComponent(cursor)}`;
    const body = await fetchJSON(client, path + query);
    entries.push(...body.entries);
    cursor = body.next_cursor;
  }
  return { entries, cursor };
}
