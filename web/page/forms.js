// Forms that several screens use.
import { errorText } from './components.js';
import { html, useState } from './view.js';

// TextForm is a form of one field. submit(text) returns a promise of the text that the
// field has then; an error that it throws is shown below the field. textOf(error), if
// given, returns a text for an error, or nothing for the usual one.
export function TextForm({ id, label, hint, action, initial = '', submit, textOf }) {
  const [text, setText] = useState(initial);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const input = (event) => {
    setText(event.target.value);
    setError('');
  };
  const send = async (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    setBusy(true);
    try {
      setText((await submit(text.trim())) ?? '');
    } catch (cause) {
      setError(textOf?.(cause) ?? errorText(cause));
    }
    setBusy(false);
  };
  return html`<form class="ask card" onSubmit=${send} novalidate>
    <label for=${id}>${label}</label>
    <div class="field">
      <input
        id=${id}
        autocomplete="off"
        spellcheck=${false}
        placeholder=${hint}
        value=${text}
        onInput=${input}
        aria-invalid=${error ? 'true' : undefined}
        aria-describedby=${`${id}-wrong`}
      />
      <button class="button strong" disabled=${busy}>${action}</button>
    </div>
    <p id=${`${id}-wrong`} class="wrong" role="alert">${error}</p>
  </form>`;
}
