import { useEffect, useState } from 'react';
import type { Client, LiveState } from 'stepboard';

/**
 * useRanking follows a ranking while its component is there and the page is visible:
 *
 *     const { state, ranking } = useRanking(stepboard, 'steps');
 */
export function useRanking(stepboard: Client, board: string, group?: string): LiveState {
  const [state, setState] = useState<LiveState>({
    state: 'offline',
    ranking: null,
    at: 0,
    error: null,
  });
  useEffect(() => {
    const live = stepboard.live({ board, ...(group && { group }), onChange: setState });
    const follow = (): void => (document.hidden ? live.pause() : live.resume());
    document.addEventListener('visibilitychange', follow);
    follow();
    return () => {
      document.removeEventListener('visibilitychange', follow);
      live.stop();
    };
  }, [stepboard, board, group]);
  return state;
}
