// Who has passed the viewer, as the open page says it.
import { nameOf } from './components.js';
import { addTexts, formatRank, locale, stripBidi, t } from './i18n.js';

addTexts({
  en: {
    passedYou: {
      one: '{names} has passed you. You are {place} now.',
      other: '{names} have passed you. You are {place} now.',
    },
  },
  'zh-CN': { passedYou: '{names}超过了你，你现在是{place}。' },
});

// sentenceOf returns what the event passed says, {rank, passed_by}, in the viewer's language.
export function sentenceOf({ rank, passed_by: people }) {
  const names = new Intl.ListFormat(locale).format(people.map((p) => stripBidi(nameOf(p))));
  return t('passedYou', { names, place: formatRank(rank), count: people.length });
}
