// The goal of a day: how many steps the reader wants to walk. The page keeps it, and the service does
// not know it.
import { fetchJSON } from './data.js';
import { addDays } from './i18n.js';
import { goalKey, read, store } from './storage.js';
import { useEffect, useState } from './view.js';

export const mostSteps = 100_000;
// What is proposed to somebody without a day to propose from.
const usualGoal = 8000;
export const proposalDays = 14;

// isLow reports whether a board ranks the lowest score first. Goals, averages and sums, which count
// upwards, are not shown for it.
export const isLow = (board) => board?.order === 'low';

export const isGoal = (n) => Number.isInteger(n) && n >= 1 && n <= mostSteps;

// keptGoal returns the goal that was chosen in this browser, or null.
function keptGoal() {
  const kept = Number(read(goalKey));
  return isGoal(kept) ? kept : null;
}

const proposals = new Map(); // promises by client, board and day

// propose returns a promise of the goal that is proposed to the viewer: the average of those of the
// last days that have a score, rounded up to hundreds.
function propose({ client, board }, today) {
  const key = `${client.key} ${board} ${today}`;
  const range = `from=${addDays(today, -proposalDays)}&to=${addDays(today, -1)}`;
  const ask = async () => {
    const { entries } = await fetchJSON(client, `/v1/boards/${board}/history?${range}`);
    const average = entries.reduce((sum, { score }) => sum + score, 0) / entries.length;
    return Math.min(Math.ceil(average / 100) * 100, mostSteps) || usualGoal;
  };
  if (!proposals.has(key)) {
    proposals.set(key, ask());
    proposals.get(key).catch(() => proposals.delete(key));
  }
  return proposals.get(key);
}

// useProposal returns what is proposed, or null as long as that is not known or not wanted.
export function useProposal(session, today, wanted) {
  const [proposed, setProposed] = useState(null);
  useEffect(() => {
    if (!today || !wanted) return undefined;
    let gone = false;
    const set = (goal) => gone || setProposed(goal);
    propose(session, today).then(set, () => set(usualGoal));
    return () => {
      gone = true;
    };
  }, [session.client, session.board, today, wanted]);
  return proposed;
}

// useGoal returns [goal, choose] of a day. The goal is null until it is known.
export function useGoal(session, today) {
  const [chosen, setChosen] = useState(keptGoal);
  const proposed = useProposal(session, today, !chosen);
  const choose = (goal) => {
    store(goalKey, goal);
    setChosen(goal);
  };
  return [chosen ?? proposed, choose];
}
