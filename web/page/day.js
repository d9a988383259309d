// What the ranking of a day has besides its rows: likes. It is loaded once the ranking is
// shown.
import { addTexts } from './i18n.js';
import { useLikes } from './likes.js';
import { texts } from './translations-day.js';
import { useEffect, useLayoutEffect } from './view.js';

addTexts(texts);

// DayExtras calls onRows with a function that returns what a row has beside its link. ranking
// is that of a day; of a past one it has likes. reload fetches a past day again.
export function DayExtras({ session, circle, ranking, past, reload, notify, onRows }) {
  const likes = useLikes({ session, circle, ranking, past, reload, notify });
  useLayoutEffect(() => onRows(() => likes.heart), [ranking, ...likes.state]);
  useEffect(() => () => onRows(null), []);
  return likes.dialog;
}
