// The webhooks that the demo has sent to itself.
import { pollInterval, useFetch } from './data.js';
import { ErrorNotice, Icon, Notice, Skeleton } from './components.js';
import { addTexts, formatNumber, formatTime, t } from './i18n.js';
import { texts } from './translations-webhooks.js';
import { html } from './view.js';

addTexts(texts);

function Message({ message }) {
  const { id, type, body, more, received_at: at } = message;
  return html`<li class="webhook">
    <div class="hero-top">
      <b>${type}</b>
      <span class="pill live"><${Icon} name="check" />${t('verified')}</span>
    </div>
    <span class="label">${`${formatTime(at)} · ${id}`}</span>
    <code>${body}</code>
    ${more > 0 && html`<span class="label">${t('moreBytes', { n: formatNumber(more) })}</span>`}
  </li>`;
}

// Webhooks lists the last messages of each type, the newest first.
export function Webhooks() {
  const [{ data, state, error }, retry] = useFetch(null, '/demo/webhooks', pollInterval);
  const list = () => {
    if (!data && state === 'loading') return html`<${Skeleton} />`;
    if (!data) return html`<${ErrorNotice} error=${error} retry=${retry} />`;
    if (data.messages.length === 0) {
      return html`<${Notice} icon="cloud" title=${t('noMessages')} hint=${t('noMessagesHint')} />`;
    }
    return html`<ol role="list">
      ${data.messages.map((message) => html`<${Message} key=${message.id} message=${message} />`)}
    </ol>`;
  };
  return html`<div class="page">
    <header class="title">
      <a class="round" href="#/me" aria-label=${t('back')}><${Icon} name="back" /></a>
      <h1 tabindex="-1">${t('webhooks')}</h1>
    </header>
    <p class="hint">${t('webhooksHint')}</p>
    <section class="card list" aria-label=${t('webhooks')}>${list()}</section>
  </div>`;
}
