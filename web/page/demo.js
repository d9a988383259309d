// What a visitor of the demo can do: walk, and give. It is loaded once the ranking is shown.
import { fetchJSON } from './data.js';
import { errorText, Icon } from './components.js';
import { addTexts, formatNumber, t } from './i18n.js';
import { html, useState } from './view.js';

addTexts({
  en: {
    demo: 'Try it',
    demoHint: 'The people here are simulated. What you do changes your rank.',
    addSteps: 'Walk {n}',
    gift: 'Gift',
    gave: {
      one: 'You gave a gift of {n} coin. See the event’s board.',
      other: 'You gave a gift of {n} coins. See the event’s board.',
    },
    walked: { one: 'You walked {n} step.', other: 'You walked {n} steps.' },
    notSent: 'No connection: this was not confirmed and may not count. Try again later.',
    stepsFull: 'You have reached the most steps that a day can have.',
  },
  'zh-CN': {
    demo: '试一试',
    demoHint: '这是一个虚拟世界，你的操作会改变名次。',
    addSteps: '走 {n} 步',
    gift: '送礼',
    gave: '你送出了价值 {n} 金币的礼物，去活动榜看看吧。',
    walked: '你走了 {n} 步。',
    notSent: '无法连接：没有收到确认，可能没有计入。请稍后再试。',
    stepsFull: '一天的步数已达上限。',
  },
});

const maxSteps = 100000;

// DemoActions lets a visitor of the demo walk and give.
export function DemoActions({ session, ranking, refresh, notify }) {
  const [busy, setBusy] = useState(false);
  const run = async (action) => {
    setBusy(true);
    try {
      notify(await action());
    } catch (error) {
      notify(error.status === 0 ? t('notSent') : errorText(error));
    }
    setBusy(false);
  };
  const walk = async (steps) => {
    const board = `/v1/boards/${session.board}`;
    const before = (await fetchJSON(session.client, `${board}/me`)).score ?? 0;
    const score = Math.min(before + steps, maxSteps);
    if (score === before) return t('stepsFull');
    const body = { date: ranking.date, score };
    await fetchJSON(session.client, `${board}/scores`, { method: 'POST', body });
    await refresh();
    return t('walked', { n: formatNumber(score - before), count: score - before });
  };
  const give = async () => {
    const body = { user_id: session.user.user_id };
    const { coins } = await fetchJSON(session.client, '/demo/gift', { method: 'POST', body });
    return t('gave', { n: formatNumber(coins), count: coins });
  };
  const walkButton = (n) => html`<button
    class="button"
    key=${n}
    disabled=${busy}
    onClick=${() => run(() => walk(n))}
  >
    <${Icon} name="walk" />${t('addSteps', { n: formatNumber(n) })}
  </button>`;
  return html`<section class="actions" aria-label=${t('demo')}>
    <div class="actions-text"><h2>${t('demo')}</h2><p>${t('demoHint')}</p></div>
    <div class="buttons">
      ${[500, 3000].map(walkButton)}
      <button class="button gift" disabled=${busy} onClick=${() => run(give)}>
        <${Icon} name="gift" />${t('gift')}
      </button>
    </div>
  </section>`;
}
