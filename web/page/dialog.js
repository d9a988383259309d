// Dialogs: what one can do with a person, and questions before what can't be undone. Also
// what saves a file that a dialog offers.
import { html, useEffect, useRef } from './view.js';

// Dialog shows children above the screen until it is closed: by Escape, or by the
// function close, which children is called with.
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby="dialog-title">
    <h2 id="dialog-title">${title}</h2>
    ${children(() => dialog.current.close())}
  </dialog>`;
}

// Question is the content of a dialog that asks before something is done.
export function Question({ hint, keep, action, busy, close, onConfirm }) {
  return html`<p>${hint}</p>
    <div class="buttons">
      <button class="button" onClick=${close}>${keep}</button>
      <button class="button danger" disabled=${busy} onClick=${onConfirm}>${action}</button>
    </div>`;
}

// save lets the browser download a file.
export function save(file) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser reads it meanwhile
}
