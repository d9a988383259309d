// What is shown to somebody who is not signed in: the way to the app's login, or a form for a token.
import { LanguageButton } from './components.js';
import { addTexts, t, tRich } from './i18n.js';
import { assetOf } from './storage.js';
import { texts } from './translations-sign-in.js';
import { html, useState } from './view.js';

addTexts(texts);

// The address of the app's login (page.login_url), or nothing.
const { login, folder } = document.documentElement.dataset;

// tokenCommand returns the command that prints a token of a user of this service.
export const tokenCommand = (user) =>
  `stepboard token ${folder === undefined ? '' : '--data DIR '}--user ${user}`;

// loginAddress returns it with the place to come back to: a path and a hash of this origin.
function loginAddress() {
  const url = new URL(login);
  url.searchParams.set('return_to', location.pathname + location.hash);
  return url.href;
}

// TokenForm asks for a token, above its children. known is a token that is filled in unless something
// was typed.
export function TokenForm({ label, hint, wrong, action, known, signIn, children }) {
  const [typed, setTyped] = useState(null);
  const token = typed ?? known ?? '';
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) signIn(token.trim());
  };
  return html`<form class="card" onSubmit=${submit}>
      <label for="token">${label}</label>
      <input
        id="token"
        type="password"
        autocomplete="off"
        spellcheck=${false}
        required
        value=${token}
        onInput=${(event) => setTyped(event.target.value)}
        aria-describedby="token-hint"
      />
      ${children}
      <p class="wrong" role="alert">${wrong}</p>
      <button class="button strong">${action}</button>
      <p id="token-hint" class="hint">${hint}</p>
    </form>`;
}

// Entrance is the screen around a form.
export function Entrance({ title, intro, link, onLocale, children }) {
  return html`<main class="sign-in" id="main">
    <img src=${assetOf('icon.svg')} alt="" width="64" height="64" />
    <h1>${title}</h1>
    ${intro && html`<p>${intro}</p>`} ${children}
    <p class="links">${link}<${LanguageButton} onChange=${onLocale} /></p>
  </main>`;
}

// What is said to somebody who has opened an invitation.
const intros = { join: 'invited', invite: 'invitedByFriend' };

// SignIn leads to the app's login. The form is for those who try the service without an app.
export function SignIn({ signIn, refused, onLocale }) {
  const command = html`<code>${tokenCommand('9')}</code>`;
  const wrong = refused && t('badToken');
  const form = html`<${TokenForm}
    label=${t('token')}
    hint=${tRich('tokenHint', { command })}
    wrong=${!login && wrong}
    action=${t('showRanking')}
    signIn=${signIn}
  />`;
  return html`<${Entrance}
    title="Stepboard"
    intro=${t(intros[location.hash.split('/')[1]] ?? 'welcome')}
    link=${html`<a class="docs" href="docs">${t('docs')}</a>`}
    onLocale=${onLocale}
  >
    ${
      login
        ? html`${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
            <a class="button strong" href=${loginAddress()}>${t('signIn')}</a>
            <details>
              <summary>${t('forDevelopers')}</summary>
              ${form}
            </details>`
        : form
    }
  <//>`;
}
