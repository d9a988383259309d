package demo

import (
	"context"
	"fmt"
	"time"

	"stepboard/app"
	"stepboard/config"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

const (
	// quizBoard is the board of an event that takes the best: each person's best round leads.
	quizBoard = "quiz"
	// quizMaxScore is what a round without a mistake gives.
	quizMaxScore = 1000
	// quizTries is how often a person plays at most.
	quizTries = 3
)

// quizEvent returns the board of the quiz: it began with the gifts, ends a day earlier, and takes
// rounds that were played up to eventBegan ago.
func quizEvent(now time.Time) config.Board {
	quiz := eventOf(quizBoard, now)
	quiz.End = quiz.End.Add(-24 * time.Hour)
	quiz.MaxScore, quiz.Takes, quiz.Unit = quizMaxScore, string(models.TakesBest), "points"
	quiz.Late = eventBegan
	return quiz
}

// quizRounds returns the rounds that people have played before the demo began. They follow from the
// people's positions, so they are the same in each demo.
func quizRounds(p *people, now time.Time) (rounds []ledger.Increment) {
	for position, id := range p.ids[:min(len(p.ids), peopleWithPast)] {
		if position%3 == 1 {
			continue // does not play
		}
		for round := range 1 + position%quizTries {
			minutes := (position*37 + round*401) % int((eventBegan-time.Hour)/time.Minute)
			played := models.TimestampOf(now.Add(-time.Duration(minutes) * time.Minute))
			rounds = append(rounds, ledger.Increment{
				User: id, Result: true, Amount: int64(quizMaxScore/4 + (430+position*389+round*211)%(3*quizMaxScore/4)),
				EventID: fmt.Sprintf("quiz-%d-%d", position, round), OccurredAt: &played,
			})
		}
	}
	return rounds
}

// playQuiz stores the rounds.
func playQuiz(ctx context.Context, a *app.App, p *people, now time.Time) error {
	return addAll(ctx, a, quizBoard, quizRounds(p, now))
}
