// What the snippets of docs/client.md use of an app and of its platform.
declare const userId: string;
declare function readStepCounter(day: string): Promise<number>;
declare function show(
  entries: import('../src/index.js').Ranking['entries'],
  me: import('../src/index.js').Ranking['me'],
): void;
declare function showHint(text: string): void;
declare function draw(points: { date: string; score: number }[]): void;
declare const AppState: {
  addEventListener(type: 'change', listener: (state: 'active' | 'background') => void): void;
};
