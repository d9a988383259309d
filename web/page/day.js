// What the ranking of a day has besides its rows: likes, places won and lost, the card of the
// day and the picture to share. It is loaded once the ranking is shown.
import { seeLikes } from './badges.js';
import { Icon, prefersReducedMotion, useLater } from './components.js';
import { longestPage, useBoard } from './data.js';
import { useDialog } from './dialog.js';
import { PastDayCard, Yesterday } from './digest.js';
import { formatDuration } from './duration.js';
import { isLow, useGoal } from './goal.js';
import { addTexts, formatNumber, isDay, t, unitOf } from './i18n.js';
import { useLikes } from './likes.js';
import { useMoves } from './moves.js';
import { texts } from './translations-day.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';

addTexts(texts);

function Move({ places }) {
  if (!places) return null;
  const n = formatNumber(Math.abs(places));
  const text = t(places > 0 ? 'placesWon' : 'placesLost', { n, count: Math.abs(places) });
  return html`<span class=${places > 0 ? 'move won' : 'move lost'}>
    <span aria-hidden="true">${places > 0 ? '▲' : '▼'}${n}</span>
    <span class="visually-hidden">${text}</span>
  </span>`;
}

const celebratedPlaces = 3;

const minute = 60_000; // milliseconds

// useCelebration celebrates when the viewer reaches the first three of more people.
function useCelebration(me, total, notify) {
  const before = useRef(me?.rank);
  useEffect(() => {
    const last = before.current;
    before.current = me?.rank;
    if (!me || !last || me.rank > celebratedPlaces || last <= celebratedPlaces) return;
    if (total <= celebratedPlaces) return;
    notify(t('amongThree'));
    if (!prefersReducedMotion() && !document.hidden) {
      import('./celebrate.js').then(
        ({ celebrate }) => celebrate(),
        () => {},
      );
    }
  }, [me?.rank]);
}

const importShare = () => import('./share.js');
const importWhy = () => import('./why.js');
const importGoal = () => import('./goal-dialog.js');
const importTotal = () => import('./total-dialog.js');

function ShareButton(props) {
  const [dialog, open] = useDialog(importShare, 'ShareDialog', props);
  return html`<button
      class="share"
      aria-haspopup="dialog"
      aria-label=${t('shareDay')}
      title=${t('shareDay')}
      onClick=${open}
    >
      <${Icon} name="share" />
    </button>
    ${dialog}`;
}

// WhyButton opens the explanation of the viewer's score: a mark beside the score, or a button of words
// where there is none.
function WhyButton({ session, ranking, unit, low, notify }) {
  const title = t(ranking.me ? 'why' : 'whyNot');
  const props = { session, date: ranking.date, unit, low, title, notify };
  const [dialog, open] = useDialog(importWhy, 'WhyDialog', props);
  return html`<button
      class=${ranking.me ? 'why' : 'button'}
      aria-haspopup="dialog"
      aria-label=${title}
      title=${title}
      onClick=${open}
    >
      ${ranking.me ? '?' : title}
    </button>
    ${dialog}`;
}

// useLeft returns how much is left of a board's day in words: whole hours, or minutes in the last one. It
// returns nothing if the service does not know when the day ends, and after it has ended.
function useLeft(board) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((n) => n + 1), minute);
    return () => clearInterval(timer);
  }, []);
  const left = Date.parse(board?.current.ends_at) - Date.now();
  if (!(left > 0)) return '';
  return t('left', { time: formatDuration(Math.max(left, minute), 1) });
}

// Aim says below the viewer's score how much of the goal it is, and what is left of the day. It leads to
// the dialog that changes the goal.
function Aim({ score, goal, left, onClick }) {
  if (!goal)
    return html`<span class="aim">${left && html`<span></span><span>${left}</span>`}</span>`;
  const n = formatNumber(goal);
  const reached = score >= goal;
  return html`<button class="aim" aria-haspopup="dialog" onClick=${onClick}>
    <span class="aim-goal">${reached ? t('goalReached', { n }) : t('ofGoal', { n })}</span>
    <span>${left}</span>
    <span class="visually-hidden">${t('goalChange')}</span>
  </button>`;
}

// useArrival leads whoever comes from a notification to the row of a person, or to the day that it was of,
// if that is over.
function useArrival([id, day] = [], ranking, limit, raiseLimit) {
  const arrived = useRef('');
  useEffect(() => {
    if (!id || arrived.current === id) return;
    if (isDay(day) && day !== ranking.date) {
      location.replace(`#/day/${day}`);
      return;
    }
    const row = document.querySelector(`.ranking > li[data-user="${CSS.escape(id)}"]`);
    if (!row && ranking.next_cursor && limit < longestPage) {
      raiseLimit();
      return;
    }
    arrived.current = id;
    row?.scrollIntoView({ block: 'center' });
    row?.querySelector('a')?.focus({ preventScroll: true });
  }, [id, ranking]);
}

const importAbsent = () => import('./absent.js');

// Absent is AbsentPeople once it is loaded.
function Absent(props) {
  const module = useLater(importAbsent, true);
  return module && html`<${module.AbsentPeople} ...${props} />`;
}

// DayExtras is Extras for one day after another, and the dialog in which a total is typed: it stays open at midnight.
// refresh fetches today's ranking again.
export function DayExtras({ refresh, ...props }) {
  const { session, ranking, reload, notify } = props;
  const { date } = ranking;
  const [board, , ask] = useBoard(session.client, session.board);
  useEffect(() => {
    if (board) ask();
  }, [date]);
  const [dialog, open] = useDialog(importTotal, 'TotalDialog', {
    ...{ session, board, date, notify },
    onSent: refresh ?? reload,
  });
  const mayAdd = board?.uploads === 'users' && !isLow(board) && !ranking.final;
  const add =
    mayAdd &&
    html`<button
      class=${ranking.me ? 'button' : 'button strong'}
      data-action="add"
      aria-haspopup="dialog"
      onClick=${open}
    >
      ${t('addTotal', { unit: unitOf(board.unit || 'steps') })}
    </button>`;
  return html`<${Extras} key=${date} ...${{ ...props, board, add }} />
    ${dialog}`;
}

// Extras shows the card of a past day, or the line about yesterday, the button add and the viewer's held total, if
// there are any, and calls onExtras with the goal, the board's unit, low (the lowest score is first) and functions:
// after(entry, own) returns what a row has beside its link, absent() what follows the last row, share() and why()
// a button, moved() the places won or lost, aim(score) the goal and what is left of the day. reload fetches a past
// day again.
function Extras(props) {
  const { session, circle, ranking, past, reload, notify, onExtras, board, add } = props;
  useArrival(circle.group || past ? [] : props.at, ranking, props.limit, props.raiseLimit);
  const likes = useLikes({ session, ranking, reload, notify });
  const whose = `${session.user.user_id} ${circle.path}`;
  const movesOf = useMoves(whose, past ? null : ranking);
  useCelebration(past ? null : ranking.me, ranking.total, notify);
  const after = (entry, own) => html`<${Move} places=${movesOf(entry)} />
    ${likes.heart(entry, own)}`;
  const absent = () => html`<${Absent} ...${{ session, circle, ranking, past }} />`;
  const low = isLow(board);
  const [wanted, choose] = useGoal(session, past || low ? null : ranking.date);
  const goal = low ? null : wanted;
  const left = useLeft(past ? null : board);
  const unit = board?.unit || (low ? 'points' : undefined);
  const [goalDialog, openGoal] = useDialog(importGoal, 'GoalDialog', {
    session,
    today: ranking.date,
    goal,
    choose,
    notify,
  });
  const moved = () => ranking.me && html`<${Move} places=${movesOf(ranking.me)} />`;
  const aim = (score) => !past && html`<${Aim} ...${{ score, goal, left }} onClick=${openGoal} />`;
  const share = () =>
    ranking.me && html`<${ShareButton} ...${{ circle, ranking, unit, notify }} />`;
  const why = () => html`<${WhyButton} ...${{ session, ranking, unit, low, notify }} />`;
  useLayoutEffect(
    () => onExtras({ after, absent, share, why, moved, aim, goal, unit, low }),
    [ranking, likes.version, goal, left, unit, low],
  );
  useEffect(() => () => onExtras({}), []);
  const own = ranking.me && likes.of(ranking.me)?.likes;
  useEffect(() => {
    if (!past && !circle.group && ranking.me?.likes >= 0) seeLikes(ranking);
  }, [ranking.me?.likes]);
  return html`${
    past
      ? html`<${PastDayCard} ...${{ ranking, circle }} likes=${own} />`
      : html`<${Yesterday} ...${{ session, circle, date: ranking.date }} />`
  }
    ${(!ranking.me || add) && html`<p class="card yesterday">${!ranking.me && why()}${add}</p>`}
  ${
    props.held &&
    html`<p class="card yesterday">
      <span class="digest">${t('held', { n: formatNumber(props.held.score) })}</span>
    </p>`
  }
    ${likes.dialog} ${goalDialog}`;
}

// DayLikes is DayExtras for a list of people that has hearts on its rows and nothing else. The
// ranking is today's.
export function DayLikes({ session, ranking, notify, onExtras }) {
  const likes = useLikes({ session, ranking, notify });
  useLayoutEffect(() => onExtras({ after: likes.heart }), [ranking, likes.version]);
  useEffect(() => () => onExtras({}), []);
  return likes.dialog;
}
