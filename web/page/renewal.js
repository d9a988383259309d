// The question before the page leaves for a provider, where a session that has ended is renewed.
import { Dialog } from './dialog.js';
import { addTexts, t } from './i18n.js';
import { html } from './view.js';

addTexts({
  en: {
    renew: 'Sign in again',
    renewHint:
      'You have to sign in again, and what you have typed here will be lost: copy it first if you need it.',
    renewLater: 'Not yet',
  },
  'zh-CN': {
    renew: '重新登录',
    renewHint: '你需要重新登录，已输入的内容会丢失，如有需要请先复制。',
    renewLater: '稍后',
  },
});

function Renewal({ onLeave, onClose }) {
  return html`<${Dialog} id="renewal" title=${t('renew')} onClose=${onClose}>
    ${(close) => html`<p>${t('renewHint')}</p>
      <div class="buttons">
        <button class="button" onClick=${close}>${t('renewLater')}</button>
        <button class="button strong" onClick=${onLeave}>${t('renew')}</button>
      </div>`}
  <//>`;
}

// isTyped reports whether something is typed that is lost when the page leaves.
const isTyped = () =>
  [...document.querySelectorAll('input:not([type=checkbox])')].some(
    (field) => field.isTyped && field.value,
  );

// ask calls leave at once if nothing is typed. Otherwise it has the question shown, by show, which takes what is to
// be shown or null.
export function ask(leave, show) {
  if (!isTyped()) leave();
  else show(html`<${Renewal} onLeave=${leave} onClose=${() => show(null)} />`);
}
