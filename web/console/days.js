// The last days of a user on a board.
import { useFetch } from '../page/data.js';
import { addDays, formatDay, t } from '../page/i18n.js';
import { html, useState } from '../page/view.js';
import { dayText } from './correct.js';
import { userPath } from './parts.js';

export const chartDays = 31;

// Chart shows the last days of a user as bars. Each is a button that picks its day.
export function Chart({ days, latest, picked, onPick }) {
  const byDay = new Map(days.map((day) => [day.date, day]));
  const highest = Math.max(1, ...days.map(({ score }) => score));
  const bar = (n) => {
    const date = addDays(latest, n - chartDays + 1);
    const day = byDay.get(date);
    const text = dayText(date, day);
    return html`<li key=${date} style=${{ '--part': String(day ? day.score / highest : 0) }}>
      <button
        type="button"
        aria-pressed=${String(date === picked)}
        aria-label=${text}
        title=${text}
        onClick=${() => onPick(date)}
      ></button>
    </li>`;
  };
  return html`<ol class="bars" aria-label=${t('lastDays')}>
      ${[...Array(chartDays).keys()].map(bar)}
    </ol>
    <p class="between label">
      <span>${formatDay(addDays(latest, 1 - chartDays))}</span><span>${formatDay(latest)}</span>
    </p>`;
}

// LastDays shows the scores of a user until a day of a board, as a field of an action.
export function LastDays({ client, subject: { user_id: user, board, date } }) {
  const [{ data }] = useFetch(client, user && `${userPath(user)}?board=${board}`);
  const [picked, setPicked] = useState(date);
  if (!data) return null;
  const { days } = data;
  const latest = days[0]?.date > date ? days[0].date : date;
  return html`<div>
    <${Chart} ...${{ days, latest, picked, onPick: setPicked }} />
    <p aria-live="polite">${dayText(
      picked,
      days.find((day) => day.date === picked),
    )}</p>
  </div>`;
}
