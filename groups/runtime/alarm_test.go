package runtime

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// ringing runs f beside an alarm, whose ticks it keeps as seconds since its start.
func ringing(t *testing.T, f func(a *Alarm, ticks func() []int)) {
	synctest.Test(t, func(t *testing.T) {
		a, began := NewAlarm(), time.Now()
		var rang []int
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Run(ctx, time.Now, func() { rang = append(rang, int(time.Since(began)/time.Second)) })
		}()
		synctest.Wait()
		f(a, func() []int { synctest.Wait(); return rang })
		stop()
		<-ended
	})
}

func TestAlarmRingsAtTheEarliestTimeOnce(t *testing.T) {
	ringing(t, func(a *Alarm, ticks func() []int) {
		now := time.Now()
		for _, s := range []time.Duration{5, 9, 3, 4} {
			a.Set(now.Add(s * time.Second))
		}
		<-time.After(time.Minute)
		if got, want := ticks(), []int{3}; !slices.Equal(got, want) {
			t.Errorf("rang at %v, want %v", got, want)
		}
		a.Set(now) // is over: as soon as can be
		<-time.After(time.Second)
		if got, want := ticks(), []int{3, 60}; !slices.Equal(got, want) {
			t.Errorf("rang at %v, want %v", got, want)
		}
	})
}

func TestAlarmThatComesNearerWhileItRuns(t *testing.T) {
	ringing(t, func(a *Alarm, ticks func() []int) {
		now := time.Now()
		a.Set(now.Add(9 * time.Second))
		<-time.After(time.Second)
		a.Set(now.Add(4 * time.Second))
		a.Set(now.Add(20 * time.Second))
		<-time.After(time.Minute)
		if got, want := ticks(), []int{4}; !slices.Equal(got, want) {
			t.Errorf("rang at %v, want %v", got, want)
		}
	})
}

// Due sets the alarm for the next time, so that a tick that asks is called again.
func TestPeriodIsDueOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, began := NewAlarm(), time.Now()
		p := a.Every(10*time.Second, began)
		var got []string
		ctx, stop := context.WithTimeout(t.Context(), 35*time.Second)
		defer stop()
		a.Run(ctx, time.Now, func() {
			now := time.Now()
			got = append(got, fmt.Sprint(now.Sub(began), p.Due(now), p.Due(now)))
		})
		want := []string{"10s true false", "20s true false", "30s true false"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
