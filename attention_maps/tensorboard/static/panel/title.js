/** The line over a view: which head of what, and what is measured of it. */

import {stepOf} from '../core/load_frame.js';
import {measureAt, measureOf, measureText} from '../core/measures.js';
import {recordingTitle} from '../core/recordings.js';
import {cut} from './controls.js';

/** {title, about} of what is drawn: the head; where it comes from, what is measured of it and what is amiss. */
export function titleOf({meta, fitted, frame, compared}) {
  const {kind, layer, head, run, recording} = fitted;
  const measures = ['alignment_error', 'antecedent', 'entropy']
    .map((name) => [name, measureAt(meta, name, kind, layer, head)])
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${measureOf(name).title} ${measureText(name, value)}`);
  const label = meta.labels?.[kind]?.[layer]?.[head];
  const other = compared ? `minus ${compared.b.run === run ? '' : `${compared.b.run} `}${recordingTitle(compared.b.recording)}` : '';
  const by = stepOf(recording) === null ? `by the model of step ${meta.step.toLocaleString('en')}` : '';
  const place = [recordingTitle(recording), by, other].filter(Boolean).join(' ');
  const broken = frame.weights.every(Number.isFinite) ? '' : 'not all weights are numbers: the model diverged';
  return {title: frame.name, about: [place, label, broken, ...measures, cut(frame.sample)].filter(Boolean).join(' · ')};
}
