// The dialog that changes the goal of a day.
import { Dialog } from './dialog.js';
import { isGoal, mostSteps, proposalDays, useProposal } from './goal.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { html, useState } from './view.js';

addTexts({
  en: {
    goalTitle: 'Your goal',
    goalLabel: 'Steps a day',
    goalHint: 'Your last {days} days have an average of {n}, rounded up to hundreds.',
    goalUse: 'Take {n}',
    goalError: 'A number from 1 to {n}.',
  },
  'zh-CN': {
    goalTitle: '你的目标',
    goalLabel: '每天步数',
    goalHint: '你最近 {days} 天的日均，向上取整到百位，是 {n} 步。',
    goalUse: '设为 {n}',
    goalError: '请输入 1 到 {n} 的整数。',
  },
});

// GoalDialog changes the goal of a session's user, by choose(goal). today is the day before which the
// proposal ends.
export function GoalDialog({ session, today, goal, choose, onClose }) {
  const [typed, setTyped] = useState(String(goal));
  const [wrong, setWrong] = useState('');
  const proposed = useProposal(session, today, true);
  const n = formatNumber(proposed ?? 0);
  return html`<${Dialog} title=${t('goalTitle')} onClose=${onClose}>
    ${(close) => {
      const submit = (event) => {
        event.preventDefault();
        const wanted = Number(typed.replace(/[\s,.]/g, ''));
        if (!isGoal(wanted)) {
          setWrong(t('goalError', { n: formatNumber(mostSteps) }));
          return;
        }
        choose(wanted);
        close();
      };
      return html`<form class="deletion" onSubmit=${submit} novalidate>
        <label for="goal">${t('goalLabel')}</label>
        <input
          id="goal"
          inputmode="numeric"
          autocomplete="off"
          value=${typed}
          aria-invalid=${wrong ? 'true' : undefined}
          aria-describedby="goal-wrong goal-hint"
          onInput=${(event) => setTyped(event.target.value)}
        />
        <p id="goal-wrong" class="wrong" role="alert">${wrong}</p>
        <p id="goal-hint" class="hint">${proposed && t('goalHint', { n, days: proposalDays })}</p>
        <div class="buttons">
          <button class="button" type="button" disabled=${!proposed} onClick=${() => setTyped(String(proposed))}>
            ${t('goalUse', { n })}
          </button>
          <button class="button strong">${t('save')}</button>
        </div>
      </form>`;
    }}
  <//>`;
}
