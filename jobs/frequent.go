package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"stepboard/models"
)

// Work does what a job has to do, once. It returns how many rows it has worked on, whatever
// the job's rows are, also with an error. It ends soon after ctx.
type Work func(ctx context.Context) (rows int64, err error)

// frequent returns a job that looks for work at an interval of seconds or minutes.
func frequent(name string, every, deadline time.Duration, run Work) Job {
	return Job{Name: name, Schedule: cron.Every(every), Deadline: deadline, Frequent: true, Run: run}
}

// transient returns a frequent job whose failures are warnings.
func transient(name string, every, deadline time.Duration, run Work) Job {
	job := frequent(name, every, deadline, run)
	job.Transient = true
	return job
}

// Competitions returns the job that computes the standings of competitions. Its rows are the standings.
// The interval is how soon a new score is looked for when the run before has ended. The deadline leaves
// time for the archived days of many large competitions.
func Competitions(run Work) Job { return transient("competitions", 15*time.Second, time.Hour, run) }

// Correct returns the job that makes the boards in Redis agree with the corrections. Its
// rows are the entries that it has corrected. The interval bounds how long global lists show a
// score that a process has reported to the board because it did not know of the correction.
func Correct(apply Work) Job { return transient("correct", 5*time.Second, time.Minute, apply) }

// Digest returns the job that writes digests. Its rows are the users who have got one. The
// interval is how soon a digest begins once it is due, or goes on after its process died. The
// deadline leaves time for some millions of users; what is left goes on with the next run.
func Digest(run Work) Job { return frequent("digest", 15*time.Second, time.Hour, run) }

// Erase returns the job that removes what is stored about users who are erased. Its rows
// are what it has removed. The interval bounds how long after a call the first sweep begins.
func Erase(run Work) Job { return transient("erase", 2*time.Second, time.Hour, run) }

// EraseAgain returns the job that erases users once more from a Redis that has returned to
// a state before their erasure. Its rows are the entries and keys. The interval bounds how
// long an earlier state of Redis shows lines of erased users.
func EraseAgain(guard Work) Job { return transient("erase-again", time.Minute, 10*time.Minute, guard) }

// Finish returns the job that makes events final that have closed. Its rows are the events. The
// interval is how long after its end an event becomes final.
func Finish(finish Work) Job { return transient("finish", 2*time.Second, time.Minute, finish) }

// Holds returns the job that hands held totals that were released to the writer of uploads, if that
// has not taken them yet. Its rows are the totals.
func Holds(write Work) Job { return transient("holds", 5*time.Second, time.Minute, write) }

// Passed returns the job that tells users who has passed them. Its rows are the users it has looked
// at. The deadline leaves time for some millions of users; a round that takes longer begins anew.
func Passed(every time.Duration, look Work) Job { return frequent("passed", every, time.Hour, look) }

// Results returns the job that announces the results of events that are final. Its rows are
// the results. The deadline leaves time to rank very large events.
func Results(announce Work) Job { return frequent("results", 10*time.Second, 10*time.Minute, announce) }

// Reviews returns the job that lists scores for operators to look at. Its rows are the
// scores that are new on the list or have risen. The deadline leaves time for a board most of
// whose scores are to be looked at.
func Reviews(find Work) Job { return frequent("reviews", time.Minute, 10*time.Minute, find) }

// Replay returns the job that applies queued updates again after the boards'
// Redis has lost some. Its rows are the updates. The deadline leaves time to apply all that a
// queue has kept; a replay that is cut off begins anew.
//
// It runs on every process that consumes the queue, and takes no lease of the
// scheduler: so any of them notices a loss within two seconds, and while nothing
// is lost none of them asks Postgres. The replay itself takes a lease.
func Replay(recover Work) Job {
	job := transient("replay", 2*time.Second, 24*time.Hour, func(ctx context.Context) (int64, error) {
		updates, err := recover(ctx)
		return updates, models.Wrap("restore what the boards' Redis has lost of the queue", err)
	})
	job.OwnLease = true
	return job
}

// Sets returns the job that drops cached sets, such as friend lists, if Redis may have
// forgotten updates of them. Its rows are the stripes whose sets are dropped. The interval
// bounds how long a cached set is believed that Redis has restored from before an update.
//
// It runs on every process that updates such sets: only the process itself can notice
// that it wrote to a master that another one had replaced. It takes no lease, so that
// outdated sets are dropped while Postgres is away, too. Dropping twice does no harm.
func Sets(dropStale Work) Job {
	job := transient("sets", 5*time.Second, time.Minute, dropStale)
	job.OwnLease = true
	return job
}
