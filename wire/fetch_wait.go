package wire

import "time"

// readOrWait reads the partitions, and when there is too little for an answer, waits until there is enough, until
// something happens that the client must know, or until the deadline, and reads again.
//
// Kafka: ReplicaManager.fetchMessages and DelayedFetch. The deadline is compared with Options.Now; the timer only
// wakes.
func (f *fetchCall) readOrWait(partitions []fetchPartition, deadline time.Time) error {
	if len(partitions) == 0 {
		return nil
	}
	n, urgent, err := f.read(partitions)
	if err != nil || urgent || f.urgent || n >= f.minBytes || !f.s.now().Before(deadline) {
		return err
	}
	f.release() // who waits holds no memory
	began := f.s.stopwatch()
	f.wait(partitions, deadline)
	f.r.waited += f.s.lap(began)
	_, _, err = f.read(partitions)
	return err
}

// wait returns when the partitions are worth reading again. The watches are set before the partitions are looked at
// again, so that an append between the first read and the watch is not missed.
func (f *fetchCall) wait(partitions []fetchPartition, deadline time.Time) {
	poked := make(chan struct{}, 1)
	stops := make([]func(), len(partitions))
	for i := range partitions {
		stops[i] = partitions[i].log.Watch(poked)
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()

	select {
	case <-f.r.hurry: // meant for an earlier request
	default:
	}
	timer := time.NewTimer(deadline.Sub(f.s.now()))
	defer timer.Stop()
	for !f.ready(partitions) {
		select {
		case <-poked:
		case <-f.r.ctx.Done():
			return
		case <-f.r.hurry:
			return
		case <-timer.C:
			left := deadline.Sub(f.s.now())
			if left <= 0 {
				return
			}
			timer.Reset(left)
		}
	}
}

// ready reports whether a parked fetch has its minimum of bytes, or an error to tell. Kafka: DelayedFetch.tryComplete.
func (f *fetchCall) ready(partitions []fetchPartition) bool {
	sum := 0
	for i := range partitions {
		p := &partitions[i]
		n, err := p.log.Readable(p.want.offset, f.isolation, int(p.want.maxBytes))
		if err != nil {
			return true
		}
		if sum += n; sum >= f.minBytes {
			return true
		}
	}
	return false
}
