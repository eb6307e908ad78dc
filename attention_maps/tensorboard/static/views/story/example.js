/** What holds for the example shown: which head links its last pronoun, or the selected one, with the antecedent, and since when. */

import {percent} from '../../core/format.js';
import {kindsOf, layerNumber, shapesOf} from '../../core/frame.js';
import {stepName} from '../../core/recordings.js';
import {Unavailable} from '../../core/unavailable.js';
import {element} from '../../dom/elements.js';
import {askWithout} from '../ask/without.js';
import {answerOf, goldPairs, mainPair} from '../pair/gold_pairs.js';
import {rankedByWord} from '../pair/ranking.js';
import {isSeen, rivalsOf} from '../pair/rivals.js';
import {loadLayers, loadWordPair, mapOf, rivalOf} from '../pair/word_pair.js';
import {selection} from '../tokens.js';
import {nameOf} from './picture.js';

/** Weights of all steps that a page decodes for the sentence, at most. */
const DECODED = 1e7;

/** Fraction of the weight of the antecedent from which that of another word is nearly the same. */
const CLOSE = 0.8;

/**
 * {element, draw(frame), show(heads), wordsFor(name)}: a sentence, hidden for a text without gold labels. `show` gets the heads of
 * history.js, of which one may be labelled for what the sentence is about.
 */
export function createExample(context) {
  const line = element('p', {class: 'story-example', hidden: true});
  let shown = {}; // {frame, pair, about, asked} as last drawn: `about` what, and `asked` of which steps
  let heads = [];
  let ranked = null; // as from rank()

  function draw(frame) {
    const pair = isQuick(frame) ? chosenPair(frame, context.state.now.token) : null;
    line.hidden = !pair;
    if (!pair) {
      shown = {};
      return;
    }
    const {run, sample} = context.fitted();
    const {reads, source} = frame.sample;
    const [from, to] = [frame.rows[pair.row].positions, frame.columns[pair.column].positions];
    const words = [reads.ids, source?.ids, from, to, pair.why];
    const about = JSON.stringify([run, sample, frame.kind, frame.weighted, words]);
    const asked = JSON.stringify([about, context.recordings.numbers(run)]);
    if (asked === shown.asked) {
      shown = {...shown, frame, pair};
      return;
    }
    if (about !== shown.about) {
      // otherwise the sentence stays until that of the new steps is there
      ranked = null;
      line.replaceChildren(...beginning(frame, pair, false), ': reading the maps of all steps…');
    }
    shown = {frame, pair, about, asked};
    rank(frame, pair).then(
      (found) => {
        if (asked !== shown.asked) return;
        ranked = found;
        if (ranked.heads.length) tell();
        else line.replaceChildren();
      },
      (error) => {
        if (!(error instanceof Unavailable)) throw error;
        if (asked !== shown.asked) return;
        shown = {}; // the next drawing tries again
        line.replaceChildren();
      },
    );
  }

  /** Whether the maps of all steps are read in a moment: a page decodes them in the browser. */
  function isQuick({meta, kind, rows, columns}) {
    const {run, sample} = context.fitted();
    const {layers, heads} = shapesOf(meta, sample)[kind];
    const steps = context.recordings.steps(run).length;
    return !context.source.isFile || steps * layers * heads * rows.length * columns.length <= DECODED;
  }

  /** {heads, steps, rival}: the heads by their weight at the last recorded step, not at the one shown; `rival` of the first one. */
  async function rank(frame, pair) {
    const fitted = context.fitted();
    const place = {source: context.source, fitted: () => fitted}; // the state may change meanwhile
    const {nouns, own, rivals} = rivalsOf(frame, pair.row, pair.column, goldPairs(frame));
    const answers = await loadWordPair(place, frame, pair.row, own);
    const last = Object.entries(answers).map(([rows, one]) => [rows, one && {...one, chosen: one.weights.at(-1) ?? []}]);
    const ranking = rankedByWord(Object.fromEntries(last));
    const {steps} = answers[frame.rowsNamed];
    if (!ranking.length) return {heads: [], steps};
    const tensors = await loadLayers(place, frame.kind, stepName(steps.at(-1)));
    return {heads: ranking, steps, nouns, rival: rivalOf(ranking[0], frame, pair.row, rivals, tensors)};
  }

  function show(found) {
    heads = found;
    tell();
  }

  /** The sentence, once the weights between the words are known. */
  function tell() {
    if (!ranked?.heads.length || !shown.pair) return;
    const {frame, pair} = shown;
    const several = kindsOf(frame.meta, context.fitted().sample).length > 1;
    const titleOf = ({layer, head}) => nameOf({kind: frame.kind, layer, number: layerNumber(frame.meta, frame.kind, layer), head}, several);
    const [best] = ranked.heads;
    const labelled = strongest(heads.filter((one) => one.kind === frame.kind && one.roles.some(({name}) => name === 'coreference')));
    const other = labelled && ranked.heads.find((one) => one.layer === labelled.layer && one.head === labelled.head);
    const {rival} = ranked;
    const close = isSeen(rival) && rival.weight > CLOSE * best.weight && rival.weight < best.weight / CLOSE ? ', nearly a tie,' : '';
    const beside = rival?.weight > best.weight ? ' but' : ' against';
    const against = isSeen(rival) ? `${beside} ${percent(rival.weight)} to “${frame.columns[rival.column].text}”${close}` : '';
    const toMap = (one, step) => ({...mapOf(one, frame, pair.row, pair.column), recording: stepName(step), follow: false});
    const [born, last] = [ranked.steps[best.since], ranked.steps.at(-1)];
    const since = [', at least half as much since ', link(`step ${born?.toLocaleString('en')}`, 'open this map', toMap(best, born))];
    const ask = () => askWithout(context, {...best, kind: frame.kind});
    const question = answerOf(frame.sample) ? 'What does the model answer without it?' : 'What does the model predict without it?';
    const without = () => [' ', button(question, 'ask the model for this text without this head', ask)];
    const labelledOne = () => ['; ', link(titleOf(other), 'open this map', toMap(other, last)), `, “coreference”: ${percent(other.weight)}`];
    line.replaceChildren(
      ...beginning(frame, pair, ranked.nouns),
      ' most by ',
      link(titleOf(best), 'open this map', toMap(best, last)),
      `, ${percent(best.weight)}${against} at the end`,
      ...(best.since > 0 ? since : []),
      ...(other && other !== best ? labelledOne() : []),
      '.',
      ...(frame.meta.parts?.length && context.source.canAsk(context.state.now.run) ? without() : []), // not another program's model
    );
  }

  /** "Example shown, probe 1, its last pronoun: from “He” to “Ken”". */
  function beginning(frame, pair, nouns) {
    const {name} = frame.sample;
    const words = `from “${frame.rows[pair.row].text}” to “${frame.columns[pair.column].text}”${nouns ? ' (all mentions)' : ''}`;
    const toPair = {kind: frame.kind, view: 'pair', ...wordsOf(pair)};
    return [`Example shown${name && `, ${name}`}, ${pair.why}: `, link(words, 'all heads for these two words', toPair)];
  }

  function link(text, title, state) {
    return button(text, title, () => context.state.set(state));
  }

  function button(text, title, onclick) {
    return element('button', {type: 'button', class: 'link', title, onclick}, text);
  }

  /** {token, partner} for a map that shows a head for its label: the selected words, or those of the sentence for a pronoun. */
  function wordsFor(name) {
    const {token, partner} = context.state.now;
    return token || name !== 'coreference' || !shown.pair ? {token, partner} : wordsOf(shown.pair);
  }

  return {element: line, draw, show, wordsFor};
}

/** The pair with a gold label of the selected row, else the main one, with `why`; undefined without gold labels. */
function chosenPair(frame, token) {
  const gold = goldPairs(frame);
  const at = selection(token, frame);
  const selected = gold.find(({row}) => at?.side === 'row' && row === at.index);
  if (selected) return {...selected, why: 'the selected word'};
  const main = mainPair(gold, frame.kind);
  const last = main?.repeats ? 'its last word with a gold label' : 'its last pronoun';
  return main && {...main, why: frame.kind === 'cross' ? 'its first word with a gold label' : last};
}

function wordsOf({row, column}) {
  return {token: `r${row}`, partner: `c${column}`};
}

/** The head that is labelled most strongly; undefined of none. */
function strongest(heads) {
  const strength = ({roles}) => roles.find(({name}) => name === 'coreference').strength || 0;
  return heads.length ? heads.reduce((best, one) => (strength(one) > strength(best) ? one : best)) : undefined;
}
