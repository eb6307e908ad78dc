/** The list of runs and their recordings; ids and display names of recordings. */

const byName = new Intl.Collator('en', {numeric: true}).compare; // run-2 before run-10

/** Runs and recordings as last read from the plugin. */
export class Recordings {
  constructor(source) {
    this.source = source;
    this.logdir = '';
    this.runs = new Map();
    this.newest = ''; // run that recorded last
  }

  /** Read the list again -> {changed, resumed}: `resumed`: runs whose newest step is gone because they resumed from an older one. */
  async refresh() {
    const {runs, logdir, newest = ''} = await this.source.index();
    const before = this.runs;
    Object.assign(this, {logdir, newest});
    this.runs = new Map(
      Object.entries(runs)
        .sort(([one], [other]) => byName(one, other))
        .map(([run, {steps = [], generated = [], asked = []}]) => [
        run,
        {numbers: steps, steps: steps.map(stepName), generated: generated.map(generatedName), asked: asked.map(askedName)},
      ]),
    );
    const text = (listed) => JSON.stringify([...listed].map(([run, {steps, generated, asked}]) => [run, steps, generated, asked]));
    const resumed = [...before].filter(([run, {steps}]) => steps.length && !this.steps(run).includes(steps.at(-1))).map(([run]) => run);
    return {changed: text(before) !== text(this.runs), resumed};
  }

  /** Step numbers of a run, ascending. */
  numbers(run) {
    return this.runs.get(run)?.numbers ?? [];
  }

  /** The recordings that the slider moves through: the training steps, the generated texts, or the questions. */
  siblings(run, recording) {
    const {steps = [], generated = [], asked = []} = this.runs.get(run) ?? {};
    return [generated, asked].find((among) => among.includes(recording)) ?? steps;
  }

  steps(run) {
    return this.runs.get(run)?.steps ?? [];
  }

  generated(run) {
    return this.runs.get(run)?.generated ?? [];
  }

  /** The recordings made for questions. */
  asked(run) {
    return this.runs.get(run)?.asked ?? [];
  }

  /** The newest step of a run, or its newest generated recording if it has no steps. */
  latest(run) {
    return this.steps(run).at(-1) ?? this.generated(run).at(-1) ?? '';
  }

  /** A run and a recording that exist: the requested ones, else the run that recorded last, the nearest step, else the newest. */
  settle({run, recording}) {
    const chosen = [run, this.newest, ...this.runs.keys()].find((name) => this.runs.has(name)) ?? '';
    const {steps = [], generated = [], asked = []} = this.runs.get(chosen) ?? {};
    if ([steps, generated, asked].some((among) => among.includes(recording))) return {run: chosen, recording};
    const step = stepOf(recording);
    if (step === null || !steps.length) return {run: chosen, recording: this.latest(chosen)};
    const distance = (id) => Math.abs(stepOf(id) - step);
    return {run: chosen, recording: steps.reduce((best, id) => (distance(id) < distance(best) ? id : best))};
  }
}

/** step_00001200 -> "step 1,200"; generated_00002 -> "generated 2"; asked_00004 -> "question 2" (asked_00003 is the whole model's). */
export function recordingTitle(recording) {
  const step = stepOf(recording);
  if (step !== null) return `step ${step.toLocaleString('en')}`;
  const asked = /^asked_(\d+)$/.exec(recording);
  if (asked) return `question ${Math.ceil(Number(asked[1]) / 2)}${Number(asked[1]) % 2 ? ', whole model' : ''}`;
  return recording.replace(/^generated_0*/, 'generated ');
}

/** step_00001000 -> 1000; null for a recording that is not a training step. */
export function stepOf(recording) {
  const match = /^step_(\d+)$/.exec(recording);
  return match ? Number(match[1]) : null;
}

/** 1000 -> step_00001000. */
export function stepName(step) {
  return `step_${String(step).padStart(8, '0')}`;
}

/** 3 -> asked_00003. */
export function askedName(number) {
  return `asked_${String(number).padStart(5, '0')}`;
}

/** 3 -> generated_00003. */
function generatedName(number) {
  return `generated_${String(number).padStart(5, '0')}`;
}
