// What is around every screen: bars, sign-in, messages.
import { parts, plain, t } from './i18n.js';
import { Avatar, Icon, nameOf } from './components.js';
import { html, useState } from './view.js';

export const tabs = [
  ['today', '#/'],
  ['history', '#/history'],
  ['boards', '#/boards'],
  ['friends', '#/friends'],
];

function Who({ session, choose, signOut }) {
  if (!session.people)
    return html`<button class="button plain" onClick=${signOut}>${t('signOut')}</button>`;
  const pick = (event) =>
    choose(session.people.find((person) => person.user_id === event.target.value));
  return html`<div class="switch">
    <${Avatar} person=${session.user} size="small" />
    <select aria-label=${t('youAre')} value=${session.user.user_id} onChange=${pick}>${session.people.map((person) => html`<option key=${person.user_id} value=${person.user_id} selected=${person === session.user}>${plain(nameOf(person))}</option>`)}</select>
    <${Icon} name="chevron" />
  </div>`;
}

export function Bars({ session, tab, choose, signOut, children }) {
  return html`<a class="skip" href="#main" onClick=${(event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  }}>${t('skip')}</a>
    <header class="top"><a class="brand" href="#/"><img src="/assets/icon.svg" alt="" width="28" height="28" />Stepboard</a><${Who} session=${session} choose=${choose} signOut=${signOut} /></header>
    <main id="main" tabindex="-1">${children}</main>
    <nav class="tabs" aria-label=${t('main')}>${tabs.map(([name, href]) => html`<a key=${name} href=${href} aria-current=${name === tab ? 'page' : undefined}><${Icon} name=${name} /><span>${t(name)}</span></a>`)}</nav>`;
}

export function SignIn({ signIn, message }) {
  const [token, setToken] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) signIn(token.trim());
  };
  return html`<main class="sign-in" id="main">
    <img src="/assets/icon.svg" alt="" width="64" height="64" />
    <h1>Stepboard</h1>
    <p>${t('welcome')}</p>
    <form class="card" onSubmit=${submit}>
      <label for="token">${t('token')}</label>
      <input id="token" type="password" autocomplete="off" spellcheck=${false} required value=${token} onInput=${(event) => setToken(event.target.value)} aria-describedby="token-hint" />
      <p class="wrong" role="alert">${message}</p>
      <button class="button strong">${t('signIn')}</button>
      <p id="token-hint" class="hint">${parts('tokenHint', { command: html`<code>stepboard token --user 9</code>` })}</p>
    </form>
    <a class="docs" href="/docs">${t('docs')}</a>
  </main>`;
}

// Message says something for a while; screen readers hear it when they are
// free.
export function Message({ message, heard }) {
  return html`<div class="message" role="status" aria-live="polite">${message && html`<p key=${message.id}>${message.text}</p>`}</div>
    <div class="unseen" role="status" aria-live="polite">${heard}</div>`;
}
