// What somebody's days add up to: the week, the month and the streak.
import { useFetch } from './data.js';
import { ErrorNotice, SegmentedControl } from './components.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { goalKey, read, store } from './storage.js';
import { texts } from './translations-history.js';
import { html, useRef, useState } from './view.js';

addTexts(texts);

const goals = [5000, 8000, 10000];

// keptGoal returns the goal that the visitor chose.
function keptGoal() {
  const kept = Number(read(goalKey));
  return goals.includes(kept) ? kept : goals[1];
}

// Tile shows a figure in a list of them.
export function Tile({ label, value, note }) {
  return html`<div class="tile card">
    <dt class="label">${label}</dt>
    <dd><b>${value}</b><span>${note}</span></dd>
  </div>`;
}

function Streak({ streak, goal, onGoal }) {
  const { current, longest } = streak;
  const options = goals.map((n) => [n, formatNumber(n)]);
  return html`<section class="streak card" aria-label=${t('streak')}>
    <div>
      <span class="label">${t('streak')}</span>
      <b>${t('streakDays', { n: formatNumber(current), count: current })}</b>
      <span class="label">${t('longest', { n: formatNumber(longest), count: longest })}</span>
    </div>
    <div>
      <span class="label" aria-hidden="true">${t('goal')}</span>
      <${SegmentedControl} label=${t('goal')} options=${options} value=${goal} onChange=${onGoal} />
    </div>
  </section>`;
}

// Summary shows the sums of the viewer's days, or of a friend's.
export function Summary({ session, friend }) {
  const [goal, setGoal] = useState(keptGoal);
  const whose = friend ? `&for=${encodeURIComponent(friend.user_id)}` : '';
  const path = `/v1/boards/${session.board}/summary?goal=${goal}${whose}`;
  const [{ data, state, error }, retry] = useFetch(session.token, path);
  // While another goal is asked for, the last answer stays.
  const last = useRef(null);
  if (data) last.current = data;
  const sums = last.current;
  const chooseGoal = (chosen) => {
    setGoal(chosen);
    store(goalKey, chosen);
  };
  if (!sums && state !== 'loading') {
    return html`<section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>`;
  }
  if (!sums) {
    const tile = (i) => html`<div class="tile card ghostly" key=${i}></div>`;
    return html`<div class="tiles ghosts" aria-hidden="true">${[0, 1].map(tile)}</div>
      <div class="streak card ghostly" aria-hidden="true"></div>`;
  }
  const { week, month, best, streak } = sums;
  if (!best) return null;
  return html`<section class="sums" aria-labelledby="sums">
    <h2 id="sums">${t('sums')}</h2>
    <dl class="tiles">
      <${Tile} label=${t('week')} value=${formatNumber(week)} note=${t('weekNote')} />
      <${Tile} label=${t('month')} value=${formatNumber(month)} note=${t('monthNote')} />
    </dl>
    <${Streak} streak=${streak} goal=${goal} onGoal=${chooseGoal} />
  </section>`;
}
