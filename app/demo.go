package app

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
	"github.com/spf13/cobra"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/auth"
	"stepboard/services/ingest"
)

const (
	demoBoard = "steps"
	// demoTokenTTL outlives every demo.
	demoTokenTTL = 30 * 24 * time.Hour
	// demoChoices is how many people the page offers to be.
	demoChoices = 20
)

// demoOptions is what the command line says.
type demoOptions struct {
	addr, graph, steps string
	users              int
	seed               uint64
}

func (p *program) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try it out: everything in one process, with generated people who walk",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return runDemo(ctx, o, p.stdout, p.stderr)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", config.Default().HTTP.Addr, "address to listen on")
	flags.IntVar(&o.users, "users", 2000, "how many people there are, where no graph says it")
	flags.Uint64Var(&o.seed, "seed", 1, "the same seed makes the same people, friendships and steps")
	flags.StringVar(&o.graph, "graph", "", "take the friendships from this file: two user numbers a line, from 0")
	flags.StringVar(&o.steps, "steps", "", "take the steps from this file: Id,ActivityHour,StepTotal; its people are dealt out to the users in turn")
	return cmd
}

// runDemo runs the service on embedded stores until ctx ends.
func runDemo(ctx context.Context, o demoOptions, out, logTo io.Writer) error {
	w, err := openWorld(ctx, o, logTo)
	if err == nil {
		err = w.populate(ctx, out, logTo)
	}
	if err != nil {
		return unlessStopped(ctx, err)
	}
	return w.run(ctx)
}

// unlessStopped drops an error that came of stopping the demo, which is no
// failure, however early it comes.
func unlessStopped(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// demo is a service on embedded stores and the people who use it.
type demo struct {
	app      *App
	people   *people
	gifts    gifts
	listener net.Listener
	clock    models.Clock
	log      *slog.Logger
	sign     func(models.UserID) (string, error)
}

// openWorld wires a demo. What is wrong with its files and address shows
// before anything takes time.
func openWorld(ctx context.Context, o demoOptions, logTo io.Writer) (*demo, error) {
	people, err := newPeople(ctx, o)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, o.addr)
	if err != nil {
		return nil, fmt.Errorf("--addr: %w", err)
	}
	cfg := config.Default()
	cfg.Auth.HS256Secret = rand.Text() + rand.Text()
	cfg.Log = config.Log{Level: "warn", Format: "text"}
	cfg.Boards = append(cfg.Boards, demoBoards(clockOf(cfg)())...)
	w := &demo{people: people, listener: listener, clock: clockOf(cfg), log: newLogger(logTo, cfg.Log)}
	w.sign = func(user models.UserID) (string, error) {
		return auth.SignToken([]byte(cfg.Auth.HS256Secret), user, "", "", "", time.Now(), demoTokenTTL)
	}
	st, err := stores.OpenEmbedded(ctx, w.clock)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	verifier := auth.NewVerifier(auth.VerifierConfig{Secret: []byte(cfg.Auth.HS256Secret)})
	w.app, err = Build(ctx, Options{
		Config: cfg, Stores: st, Clock: w.clock, Log: w.log, Verifier: verifier, Roles: AllRoles(),
		Extra: func(engine *gin.Engine) {
			engine.GET("/demo/people", demoPeople(people, w.sign))
			engine.POST("/demo/gift", w.giveGift)
		},
	})
	if err != nil {
		verifier.Close()
		return nil, errors.Join(err, st.Close(), listener.Close())
	}
	return w, nil
}

// populate lets the people move in and says how to call them. On an error the
// world is closed.
func (w *demo) populate(ctx context.Context, out, progressTo io.Writer) error {
	w.app.Start(ctx)
	err := w.people.moveIn(ctx, w.app, w.clock, progressOn(progressTo))
	if err == nil {
		err = w.gifts.begin(ctx, w.app, w.people)
	}
	if err == nil {
		err = w.welcome(out)
	}
	if err != nil {
		return errors.Join(err, w.app.Close(), w.listener.Close())
	}
	return nil
}

// run answers requests while people walk, until ctx ends, and closes the
// world.
func (w *demo) run(ctx context.Context) error {
	var walking sync.WaitGroup
	walkCtx, stopWalking := context.WithCancel(ctx)
	walking.Go(func() { w.people.walk(walkCtx, w.app, w.clock, w.log) })
	walking.Go(func() { w.gifts.run(walkCtx, w.app, w.people, w.log) })
	err := w.app.Run(ctx, w.listener)
	stopWalking()
	walking.Wait()
	return errors.Join(err, w.app.Close())
}

// welcome says where to look and what to type.
func (w *demo) welcome(out io.Writer) error {
	board, err := w.app.Catalog.Definitions.Board(demoBoard)
	if err != nil {
		return err
	}
	me := w.people.ids[0]
	token, err := w.sign(me)
	if err != nil {
		return err
	}
	base := "http://" + reachable(w.listener.Addr())
	_, err = fmt.Fprintf(out, `Stepboard demo: %d people and %d friendships, in memory. All of it is gone when you stop it.

  page  %[3]s/
  API   %[3]s/docs

You are user %[4]v, %[5]s. Your ranking, and a walk of yours:

  TOKEN=%[6]s
  curl -H "Authorization: Bearer $TOKEN" '%[3]s/v1/boards/steps/friends?limit=5'
  curl -H "Authorization: Bearer $TOKEN" -d '{"date":"%[7]v","score":20000}' %[3]s/v1/boards/steps/scores

`, len(w.people.ids), len(w.people.edges), base, me, w.people.profile(me).Nickname, token, board.Today(w.clock()))
	return err
}

// reachable is where a listener can be called from this machine: one that
// listens everywhere names an address that some clients refuse.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
}

// demoPeople offers the page some people to be, with their tokens.
func demoPeople(people *people, sign func(models.UserID) (string, error)) gin.HandlerFunc {
	type choice struct {
		UserID   models.UserID `json:"user_id"`
		Nickname string        `json:"nickname"`
		Token    string        `json:"token"`
	}
	return func(c *gin.Context) {
		choices := make([]choice, 0, demoChoices)
		for _, id := range people.ids[:min(len(people.ids), demoChoices)] {
			token, err := sign(id)
			if err != nil {
				c.AbortWithStatus(http.StatusInternalServerError)
				return
			}
			choices = append(choices, choice{id, people.profile(id).Nickname, token})
		}
		c.JSON(http.StatusOK, gin.H{"people": choices})
	}
}

// uploadAll reports totals of many people, as a trusted backend does, in
// batches that the service has room for.
func uploadAll(ctx context.Context, a *App, uploads []ingest.Upload) error {
	for batch := range slices.Chunk(uploads, raiseBatch) {
		rejected, err := a.Ingest.AcceptValid(ctx, demoBoard, batch)
		if err != nil {
			return err
		}
		for _, r := range rejected {
			// A midnight has just passed, and with it the day's last chance.
			if models.CodeOf(r) != models.CodeDateClosed {
				return r
			}
		}
	}
	return nil
}
