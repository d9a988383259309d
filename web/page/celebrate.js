// Confetti, once.
const pieces = 60;
const colours = ['#ffd35c', '#36a273', '#e0245e', '#4c8dff', '#edb88b'];

// celebrate lets confetti fall over the page, which stays usable meanwhile.
export function celebrate() {
  const layer = document.createElement('div');
  layer.className = 'confetti';
  layer.setAttribute('aria-hidden', 'true');
  const fall = (piece, i) => {
    const start = `${Math.random() * 100}vw`;
    const drift = `${(Math.random() - 0.5) * 30}vw`;
    piece.style.background = colours[i % colours.length];
    const frames = [
      { transform: `translate(${start}, -5vh) rotate(0)` },
      {
        transform: `translate(calc(${start} + ${drift}), 105vh) rotate(${720 * Math.random()}deg)`,
      },
    ];
    const options = { duration: 1400 + 1200 * Math.random(), easing: 'ease-in', fill: 'both' };
    return piece.animate(frames, { ...options, delay: 400 * Math.random() }).finished;
  };
  const confetti = Array.from({ length: pieces }, () => document.createElement('i'));
  layer.append(...confetti);
  document.body.append(layer);
  Promise.allSettled(confetti.map(fall)).then(() => layer.remove());
}
