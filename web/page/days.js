// The strip of days, and a calendar for those before it.
import { addDays, longDay, t, weekday } from './i18n.js';
import { Icon } from './components.js';
import { html, useLayoutEffect, useRef } from './view.js';

const shown = 14;

export function DayStrip({ today, selected }) {
  const strip = useRef(null);
  const picker = useRef(null);
  useLayoutEffect(() => {
    const center = () => {
      const current = strip.current?.querySelector('[aria-current]');
      if (current)
        strip.current.scrollLeft =
          current.offsetLeft - (strip.current.clientWidth - current.offsetWidth) / 2;
    };
    center();
    addEventListener('resize', center);
    return () => removeEventListener('resize', center);
  }, [today, selected]);
  if (!today) return html`<div class="days" aria-hidden="true"></div>`;
  const days = Array.from({ length: shown }, (_, i) => addDays(today, i - shown + 1));
  const far = !days.includes(selected);
  if (far) days.unshift(selected);
  const pick = (event) => {
    const day = event.target.value;
    if (day && day <= today) location.hash = day === today ? '#/' : `#/day/${day}`;
  };
  const open = () => {
    try {
      picker.current.showPicker();
    } catch {
      picker.current.focus();
    }
  };
  return html`<div class="days">
    <nav class="strip" aria-label=${t('day')} ref=${strip}>
      ${days.map(
        (
          day,
        ) => html`<a key=${day} class=${far && day === selected ? 'day far' : 'day'} href=${day === today ? '#/' : `#/day/${day}`} aria-current=${day === selected ? 'date' : undefined} aria-label=${day === today ? t('today') : longDay(day)}>
        <span aria-hidden="true">${day === today ? t('today') : weekday(day)}</span><b aria-hidden="true">${Number(day.slice(8))}</b>
      </a>`,
      )}
    </nav>
    <div class="picker">
      <button class="round" aria-label=${t('pickDay')} onClick=${open}><${Icon} name="calendar" /></button>
      <input ref=${picker} type="date" tabindex="-1" aria-hidden="true" max=${today} value=${selected} onChange=${pick} />
    </div>
  </div>`;
}
