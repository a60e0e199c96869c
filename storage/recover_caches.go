package storage

import "slices"

// syncCaches writes and syncs the indexes and epochs and so brings the recovery point to the end of the log.
func (r *recovery) syncCaches() error {
	l := r.l
	again := r.cachesTried
	r.cachesTried = true
	for _, s := range l.segments {
		if s != l.active && s.base >= r.cachesFrom {
			s.finish()
		}
		if err := r.settleTxns(s, again); err != nil {
			return err
		}
		if err := r.resetIndexFiles(s); err != nil {
			return err
		}
		if s.base < r.cachesFrom && s != l.active && s.written() {
			continue
		}
		if _, err := s.writeIndexes(); err != nil {
			return err
		}
		if err := s.syncIndexes(s.hasTxnsFile()); err != nil {
			return err
		}
	}
	if len(l.segments) == 0 {
		return nil
	}
	if l.commit.epochs {
		// This syncs the directory as well.
		if err := writeLeaderEpochs(l.ctx.fs, l.dir, l.epochs); err != nil {
			return err
		}
		l.commit.epochs = false
	} else if err := l.ctx.files.syncDir(l.dir); err != nil {
		return err
	}
	r.names = false
	l.commit.recoveryPoint = l.end.Load()
	return nil
}

// settleTxns puts the transaction index of a segment in the place of a damaged one, as a whole: half of it would not show.
// again says that a sync of what is in the file may have failed.
func (r *recovery) settleTxns(s *segment, again bool) error {
	i := slices.Index(r.rebuiltTxns, s.base)
	if i < 0 {
		if again {
			return s.rewriteTxns()
		}
		return nil
	}
	l := r.l
	b, _ := s.txns.unwritten()
	err := l.ctx.files.withRoom(func() error { return replaceFile(l.ctx.fs, s.txnsFile.name, append(s.txns.written(), b...)) })
	if err == nil {
		err = s.txnsFile.close() // it is opened again under its name
	}
	if err != nil {
		return err
	}
	s.txns.wrote(len(b))
	r.rebuiltTxns = slices.Delete(r.rebuiltTxns, i, i+1)
	return nil
}

// saveCaches tries again to write what the recovery could not, once no append is under way, and lets the recovery point move
// when that is done. Without it a clean stop would be taken for one with the caches on disk. mu is held, and no rewrite is
// under way.
func (l *Log) saveCaches() error {
	seen := l.renewClosed()
	err := l.uncached.syncCaches()
	l.publish(l.here())
	for _, s := range seen {
		s.drop = (*segment).retire
		s.release()
	}
	if err != nil {
		return err
	}
	l.uncached = nil
	l.logger().Info("recovered indexes are on disk now")
	return nil
}

// atRest reports whether all that was written is on disk and nothing is under way. mu is held.
func (l *Log) atRest() bool {
	c := &l.commit
	return c.phase == commitIdle && len(c.dirty) == 0 && len(c.rolled) == 0 && l.repair == nil && l.takeover == nil
}

// trySaveCaches is saveCaches at a moment when the log may not be at rest.
func (l *Log) trySaveCaches() error {
	if !l.rewriting.TryLock() {
		return nil
	}
	defer l.rewriting.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uncached == nil || l.closed || Status(l.status.Load()) != StatusOnline || !l.atRest() {
		return nil
	}
	return l.saveCaches()
}
