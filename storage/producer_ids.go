package storage

import "sync"

// producerIDBlock is how many producer ids are reserved with one record. Kafka: ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE.
const producerIDBlock = 1000

// producerIDs hands out producer ids from blocks that are reserved in the metadata log before the first id of them is
// used. What a stop leaves of a block is never handed out.
type producerIDs struct {
	mu   sync.Mutex // held over the commit of a reservation: all who ask then wait for it
	free int64      // the first id of the block that was not handed out; guarded by mu
	end  int64      // the end of the block; guarded by mu
}

func (p *producerIDs) next(s *Store) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == p.end {
		var first int64
		err := s.metadata.commit(&metadataChange{
			build: func(st *metadataState) ([]metadataRecord, error) {
				first = st.producerIDs
				return []metadataRecord{producerIDsRecord(first + producerIDBlock)}, nil
			},
		})
		if err != nil {
			return 0, err
		}
		p.free, p.end = first, first+producerIDBlock
	}
	id := p.free
	p.free++
	return id, nil
}
