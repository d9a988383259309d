// What somebody's days add up to: the week, the month and the streak.
import { useFetch } from './data.js';
import { ErrorNotice } from './components.js';
import { useDialog } from './dialog.js';
import { useGoal } from './goal.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { texts } from './translations-history.js';
import { html, useRef } from './view.js';

addTexts(texts);

const importGoal = () => import('./goal-dialog.js');

// Tile shows a figure in a list of them.
export function Tile({ label, value, note }) {
  return html`<div class="tile card">
    <dt class="label">${label}</dt>
    <dd><b>${value}</b><span>${note}</span></dd>
  </div>`;
}

function Streak({ streak, goal, onClick }) {
  const { current, longest } = streak;
  return html`<section class="streak card" aria-label=${t('streak')}>
    <div>
      <span class="label">${t('streak')}</span>
      <b>${t('streakDays', { n: formatNumber(current), count: current })}</b>
      <span class="label">${t('longest', { n: formatNumber(longest), count: longest })}</span>
    </div>
    <div>
      <span class="label">${t('goal')}</span>
      <button class="button" aria-haspopup="dialog" onClick=${onClick}>
        ${t('goalSteps', { n: formatNumber(goal) })}
      </button>
    </div>
  </section>`;
}

// Summary shows the sums of the viewer's days, or of a friend's.
export function Summary({ session, friend, today, notify }) {
  const [goal, choose] = useGoal(session, today);
  const [dialog, open] = useDialog(importGoal, 'GoalDialog', {
    session,
    today,
    goal,
    choose,
    notify,
  });
  const whose = friend ? `&for=${encodeURIComponent(friend.user_id)}` : '';
  const path = goal && `/v1/boards/${session.board}/summary?goal=${goal}${whose}`;
  const [{ data, state, error }, retry] = useFetch(session.client, path);
  // While another goal is asked for, the last answer stays.
  const last = useRef(null);
  if (data) last.current = data;
  const sums = last.current;
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
    <${Streak} streak=${streak} goal=${goal} onClick=${open} />
    ${dialog}
  </section>`;
}
