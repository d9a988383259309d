package jobs

import "github.com/prometheus/client_golang/prometheus"

// metrics measures the runs of jobs.
type metrics struct {
	succeeded *prometheus.GaugeVec
	duration  *prometheus.HistogramVec
	rows      *prometheus.CounterVec
	failures  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	labels := []string{"job"}
	m := &metrics{
		succeeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stepboard_job_last_success_timestamp_seconds",
			Help: "When the job last succeeded on this replica, 0 for never. Take the latest of all replicas.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stepboard_job_duration_seconds",
			Help:    "Duration of a run of the job, failed runs included.",
			Buckets: []float64{.001, .01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600},
		}, labels),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_job_rows_total",
			Help: "Rows that the job has worked on, failed runs included.",
		}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_job_failures_total",
			Help: "Runs of the job that failed. Runs that the end of the service cut off don't count.",
		}, labels),
	}
	registry.MustRegister(m.succeeded, m.duration, m.rows, m.failures)
	return m
}

// initialize creates a job's metrics with zeros before its first run. Alerts on
// missing metrics, or on the first increase, need them.
func (m *metrics) initialize(job string) {
	m.succeeded.WithLabelValues(job)
	m.duration.WithLabelValues(job)
	m.rows.WithLabelValues(job)
	m.failures.WithLabelValues(job)
}
