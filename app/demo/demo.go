// Package demo runs the whole service on local stores, with simulated people
// who walk and give gifts.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/platform/auth"
)

const (
	// stepsBoard is the board of daily steps, in one time zone.
	stepsBoard = "steps"
	// localBoard is the board of daily steps whose days are each person's own.
	localBoard = "steps-local"
	// tokenTTL is longer than any demo runs.
	tokenTTL = 30 * 24 * time.Hour
	// offeredPeople is how many people the page offers to sign in as.
	offeredPeople = 20
	// uploadBatch is how many totals are uploaded at once: the service's queue has room
	// for them, and on a busy machine, too, they are stored within the time of a call.
	uploadBatch = 1000
)

// Options are the flags of the command.
type Options struct {
	// Addr is the address to listen on.
	Addr string
	// Graph is a file of friendships and Steps one of hourly steps. If empty,
	// they are generated.
	Graph, Steps string
	// Users is the number of people, unless Graph is given.
	Users int
	// Seed makes the same people, friendships and steps again.
	Seed uint64
}

// Progress shows what the demo is doing while it starts.
type Progress interface {
	// Show replaces what was shown before.
	Show(format string, args ...any)
	Clear()
}

// Run runs a demo until ctx ends. It prints to out how to use it.
func Run(ctx context.Context, o Options, out io.Writer, log *slog.Logger, progress Progress) error {
	s, err := newSimulation(ctx, o, log)
	if err == nil {
		err = s.populate(ctx, out, progress)
	}
	if err != nil {
		return unlessStopped(ctx, err)
	}
	return s.run(ctx)
}

// unlessStopped returns err, or nil if ctx has ended: stopping a demo is not a
// failure, however early.
func unlessStopped(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// simulation is the service on local stores, and the people who use it.
type simulation struct {
	app      *app.App
	people   *people
	gifts    gifts
	likes    *likes
	listener net.Listener
	clock    models.Clock
	log      *slog.Logger
	sign     func(models.UserID) (string, error)
	// signOperator returns a token of the demo's operator.
	signOperator func() (string, error)
	deadLetters  *ingest.DeadLetterStore
}

// newSimulation builds the service and the people. Errors in the files and the
// address are found before anything takes time.
func newSimulation(ctx context.Context, o Options, log *slog.Logger) (*simulation, error) {
	people, err := newPeople(ctx, o)
	if err != nil {
		return nil, err
	}
	var listenConfig net.ListenConfig
	listener, err := listenConfig.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("--addr: %w", err)
	}
	people.base = "http://" + reachable(listener.Addr())
	s := &simulation{people: people, likes: newLikes(people), listener: listener, clock: time.Now, log: log}
	if err := s.build(ctx, o.Addr); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// build builds the service on local stores; addr is the address of the listener.
func (s *simulation) build(ctx context.Context, addr string) error {
	cfg := config.Default()
	cfg.Auth.HS256Secret = rand.Text() + rand.Text()
	cfg.Limits = config.Limits{}
	cfg.Boards = boards(s.clock())
	receiver, target, err := newReceiver(s.people.base, s.clock)
	if err != nil {
		return err
	}
	cfg.Webhooks = []config.Webhook{target}
	cfg.Push.Subject = "mailto:demo@example.com" // a browser of the demo can be told, too
	if cfg.Jobs.DigestCron, err = digestCron(s.clock(), cfg.Boards[0].TimeZone); err != nil {
		return err
	}
	secret := []byte(cfg.Auth.HS256Secret)
	s.sign = func(user models.UserID) (string, error) {
		return auth.SignToken(secret, user, "", "", "", time.Now(), tokenTTL)
	}
	s.signOperator = func() (string, error) {
		return auth.SignToken(secret, demoOperator, auth.ScopeAdmin, "", "", time.Now(), tokenTTL)
	}
	st, err := stores.OpenMemory(ctx, s.clock)
	if err != nil {
		return err
	}
	s.deadLetters = ingest.NewDeadLetterStore(st.Jobs.Gorm)
	verifier := auth.NewVerifier(auth.VerifierConfig{Secret: secret})
	s.app, err = app.Build(ctx, app.Options{
		Config: cfg, Stores: st, Clock: s.clock, Log: s.log, Verifier: verifier, Roles: app.AllRoles(),
		Extra: func(engine *gin.Engine) {
			engine.GET("/demo/people", s.offerPeople)
			engine.GET("/demo/operator", s.offerOperator)
			engine.POST("/demo/gift", s.giveGift)
			engine.GET(coverPath+":position", s.showCover)
			engine.POST(receiverPath, receiver.receive)
			engine.GET(receiverPath, receiver.list)
		},
	})
	if err != nil {
		verifier.Close()
		return errors.Join(err, st.Close())
	}
	s.app.Handler = onlyHosts(s.app.Handler, addr)
	return nil
}

// boards returns the demo's boards.
func boards(now time.Time) []config.Board {
	steps := config.Default().Boards[0]
	steps.ReviewAbove, steps.Unit = demoReviewAbove, "steps"
	local := steps
	local.Name, local.TimeZone = localBoard, models.LocalZone
	steps.HoldAbove = demoHoldAbove
	return append([]config.Board{steps, local}, giftBoards(now)...)
}

// populate starts the service, stores the people with their past, and prints
// how to call the API. On an error everything is closed.
func (s *simulation) populate(ctx context.Context, out io.Writer, progress Progress) error {
	s.app.Start(ctx)
	err := s.people.store(ctx, s.app, s.clock, progress)
	if err == nil {
		err = s.gifts.giveFirst(ctx, s.app, s.people)
	}
	if err == nil {
		err = runLaps(ctx, s.app, s.people, s.clock())
	}
	if err == nil {
		err = s.likes.giveFirst(ctx, s.app, s.people)
	}
	if err == nil {
		_, err = s.app.Reviews.Find(ctx) // the job would find the shaken phone a minute later
	}
	if err == nil {
		err = leaveWork(ctx, s.app, s.people, s.deadLetters, s.clock())
	}
	if err == nil {
		err = s.printWelcome(out)
	}
	if err != nil {
		return errors.Join(err, s.app.Close(), s.listener.Close())
	}
	return nil
}

// run serves requests while people walk and give gifts, until ctx ends. Then it
// closes everything.
func (s *simulation) run(ctx context.Context) error {
	var walking sync.WaitGroup
	walkCtx, stopWalking := context.WithCancel(ctx)
	walking.Go(func() { s.people.walk(walkCtx, s.app, s.clock, s.log) })
	walking.Go(func() { s.gifts.run(walkCtx, s.app, s.people, s.log) })
	walking.Go(func() { s.likes.run(walkCtx, s.app, s.people, s.clock, s.log) })
	err := s.app.Run(ctx, s.listener)
	stopWalking()
	walking.Wait()
	return errors.Join(err, s.app.Close())
}

// printWelcome prints the page's address and calls to try.
func (s *simulation) printWelcome(out io.Writer) error {
	me := s.people.ids[0]
	token, err := s.sign(me)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `Stepboard demo: %d people and %d friendships, in memory. All of it is gone when you stop it.

  page     %[3]s/
  console  %[3]s/console
  API      %[3]s/docs

You are user %[4]v, %[5]s. Your ranking, and a walk of yours:

  TOKEN=%[6]s
  curl -H "Authorization: Bearer $TOKEN" '%[3]s/v1/boards/steps/friends?limit=5'
  curl -H "Authorization: Bearer $TOKEN" -d '{"date":"%[7]v","score":20000}' %[3]s/v1/boards/steps/scores

`, len(s.people.ids), len(s.people.edges), s.people.base, me, s.people.profile(me).Nickname, token, s.people.board.Today(s.clock()))
	return err
}

// reachable returns an address of this machine at which a listener can be
// called. For a listener on all addresses that is localhost, because some
// clients refuse 0.0.0.0.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
}

// offerPeople serves the people that a visitor of the page can sign in as, with
// their tokens.
func (s *simulation) offerPeople(c *gin.Context) {
	type choice struct {
		UserID    models.UserID `json:"user_id"`
		Nickname  string        `json:"nickname"`
		AvatarURL string        `json:"avatar_url"`
		Token     string        `json:"token"`
	}
	ids, rows, err := present(c, s.app, s.people.ids[:min(len(s.people.ids), offeredPeople)])
	if err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	records, err := s.app.Directory.Records(c, rows) // a visitor may have changed them
	if err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	choices := make([]choice, 0, len(ids))
	for i, id := range ids {
		token, err := s.sign(id)
		if err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		choices = append(choices, choice{id, records[i].Nickname, records[i].AvatarURL.String(), token})
	}
	c.JSON(http.StatusOK, gin.H{"people": choices})
}

// uploadAll uploads totals of many people to a board in batches. Totals of a day that
// has just closed, because midnight has passed, are dropped.
func uploadAll(ctx context.Context, a *app.App, board string, uploads []ingest.Upload) error {
	for batch := range slices.Chunk(uploads, uploadBatch) {
		_, rejected, err := a.Ingest.AcceptBatch(ctx, board, batch)
		if err != nil {
			return err
		}
		for _, r := range rejected {
			if models.CodeOf(r.Err) != models.CodeDateClosed {
				return r.Err
			}
		}
	}
	return nil
}
